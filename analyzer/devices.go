package analyzer

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/gputally/gputally/analyzer/device"
	"github.com/gputally/gputally/analyzer/episode"
	"github.com/gputally/gputally/internal/meter"
)

// maxDeviceRows is how many rows each query about devices returns at most: of more, the newest.
const maxDeviceRows = 50_000

// deviceBegin is from when rows about devices are read: the start of a month, so that a finding that began earlier
// keeps its cut start, and with it its id, while the range moves.
func deviceBegin(from time.Time) time.Time {
	long := from.Add(-idleReach)
	return time.Date(long.Year(), long.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// errorChunk is how many hours of errors are looked up in the ledger at a time: a statement has a greatest length.
const errorChunk = 1000

// findDevices returns the findings of grade None.
func findDevices(ctx context.Context, db DB, config device.Config, rates episode.Rates, newest device.Newest, from,
	to time.Time,
) ([]episode.Episode, error) {
	from, to = deviceBegin(from), to.Add(idleReach)
	outages, err := findOutages(ctx, db, newest, rates, from, to)
	if err != nil {
		return nil, fmt.Errorf("find silent nodes: %w", err)
	}
	errors, err := findGPUErrors(ctx, db, config, newest, rates, from, to)
	if err != nil {
		return nil, fmt.Errorf("find errors of GPUs: %w", err)
	}
	doubts, err := findDoubts(ctx, db, newest, rates, from, to)
	if err != nil {
		return nil, fmt.Errorf("find doubtful telemetry: %w", err)
	}
	return slices.Concat(outages, errors, doubts), nil
}

func findOutages(ctx context.Context, db DB, newest device.Newest, rates episode.Rates, from,
	to time.Time,
) ([]episode.Episode, error) {
	var silences []device.Silence
	err := each(ctx, db, func(rows driver.Rows) error {
		var s device.Silence
		defer func() { silences = append(silences, s) }()
		return rows.Scan(&s.Cluster, &s.Node, &s.Owners, &s.From, &s.To, &s.Model, &s.LostMilliMS, &s.Nodes)
	}, silencesSQL, from, to, maxDeviceRows)
	found := device.Outages(silences, newest, rates)
	if len(silences) == maxDeviceRows {
		noteCut(found, silences[len(silences)-1].From)
	}
	return found, err
}

func findGPUErrors(ctx context.Context, db DB, config device.Config, newest device.Newest, rates episode.Rates, from,
	to time.Time,
) ([]episode.Episode, error) {
	var errors []device.ErrorHour
	err := each(ctx, db, func(rows driver.Rows) error {
		var e device.ErrorHour
		defer func() { errors = append(errors, e) }()
		return rows.Scan(&e.Cluster, &e.Node, &e.GPU, &e.Hour, &e.Code, &e.Count)
	}, errorHoursSQL, from, to, maxDeviceRows)
	if err != nil {
		return nil, err
	}
	var states []device.State
	for chunk := range slices.Chunk(errors, errorChunk) {
		gpus, keys := make([]string, len(chunk)), make([]string, len(chunk))
		for i, e := range chunk {
			gpus[i], keys[i] = e.GPU, e.GPU+" "+strconv.FormatInt(e.Hour.Unix(), 10)
		}
		err := each(ctx, db, func(rows driver.Rows) error {
			var s device.State
			defer func() { states = append(states, s) }()
			return rows.Scan(&s.Cluster, &s.GPU, &s.Model, &s.Hour, &s.UnhealthyMilliMS, &s.Workloads)
		}, statesSQL, from, to, gpus, keys, maxDeviceRows)
		if err != nil {
			return nil, err
		}
	}
	found := device.Errors(config, errors, states, newest, rates)
	if len(errors) == maxDeviceRows {
		noteCut(found, errors[len(errors)-1].Hour)
	}
	return found, nil
}

func findDoubts(ctx context.Context, db DB, newest device.Newest, rates episode.Rates, from,
	to time.Time,
) ([]episode.Episode, error) {
	var hours []time.Time
	for hour := from; hour.Before(to); hour = hour.Add(device.Sampled) {
		hours = append(hours, hour)
	}
	var doubts []device.Doubt
	err := each(ctx, db, func(rows driver.Rows) error {
		var d device.Doubt
		var why uint8
		err := rows.Scan(&d.Cluster, &d.Node, &why, &d.From, &d.To, &d.GPUs, &d.Model, &d.LeafMS, &d.GPUMilliMS)
		d.Why = meter.Why(why)
		doubts = append(doubts, d)
		return err
	}, doubtsSQL, device.Reasons(), hours, maxDeviceRows)
	found := device.Doubts(doubts, newest, rates)
	if len(doubts) == maxDeviceRows {
		noteCut(found, doubts[len(doubts)-1].From)
	}
	return found, err
}

// noteCut says of the episodes of the oldest day read that there may be rows that weren't: rows up to a day apart are
// one episode.
func noteCut(found []episode.Episode, oldest time.Time) {
	for i := range found {
		if e := &found[i]; !e.Start.After(oldest.AddDate(0, 0, 1)) {
			e.Evidence += fmt.Sprintf("; it may have begun earlier: only the newest %d rows were read", maxDeviceRows)
		}
	}
}
