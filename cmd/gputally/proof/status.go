package proof

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gputally/gputally/cmd/gputally/app"
	"github.com/gputally/gputally/collector/spool"
	"github.com/gputally/gputally/ingest"
	"github.com/gputally/gputally/ingest/ledger"
	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/datadir"
)

// Status is the progress of each stage. Times are RFC 3339 in UTC.
type Status struct {
	Data     string          `json:"data"`
	Running  *statusProcess  `json:"running"` // null: no process serves the ledger
	Clusters []statusCluster `json:"clusters"`
	// LagMessages are in the topic and not yet ingested; null: unknown, since the broker is not running.
	LagMessages *int64        `json:"lag_messages"`
	Spools      []StatusSpool `json:"spools"`
}

type statusProcess struct {
	PID     int    `json:"pid"`
	Command string `json:"command"`
	Since   string `json:"since"`
	HTTP    string `json:"http"` // host:port; empty: only the socket
	Socket  string `json:"http_socket"`
}

type statusCluster struct {
	Cluster       string  `json:"cluster"`
	SlotSeconds   float64 `json:"slot_seconds"`
	Watermark     string  `json:"watermark"` // empty: the ledger is empty
	BehindSeconds int64   `json:"behind_seconds"`
	Hours         int     `json:"hours"`
	DirtyHours    int     `json:"dirty_hours"`
	ClosedUntil   string  `json:"closed_until"` // empty: no hour is closed
	// StaleHours would change, and LateBatches would be counted, if their raw data had not been deleted. Neither
	// changes an hour or an invoice any more.
	StaleHours  int    `json:"stale_hours"`
	LateBatches uint64 `json:"late_batches"`
}

// StatusSpool is a collector's spool.
type StatusSpool struct {
	Collector string `json:"collector"`
	Waiting   uint64 `json:"waiting"` // batches that the broker has not acknowledged
	Dropped   uint64 `json:"dropped"` // batches lost because the spool was full or damaged
}

// ReadStatus reads the progress of every stage.
func ReadStatus(ctx context.Context, s *cli.Session) (st Status, err error) {
	a, err := app.Open(ctx, s)
	if err != nil {
		return st, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	p := app.NewPipeline(ctx, s, a)
	defer func() { err = errors.Join(err, p.Group.Stop()) }()
	st = Status{Data: cmp.Or(s.Data, a.Config.ClickHouse.Address), Clusters: []statusCluster{}, Spools: []StatusSpool{}}
	if a.Run.PID != 0 {
		st.Running = &statusProcess{
			PID: a.Run.PID, Command: a.Run.Command, Since: a.Run.Started.Format(time.RFC3339),
			HTTP: a.Run.HTTPAddress, Socket: a.Run.HTTPSocket,
		}
	}
	if a.Broker != "" || len(a.Config.Kafka.Brokers) > 0 {
		if err := p.Connect(ctx); err != nil {
			return st, err
		}
		lag, err := p.Lag(ctx)
		if err != nil {
			return st, err
		}
		st.LagMessages = &lag
	}
	if st.Clusters, err = statusClusters(ctx, p); err != nil {
		return st, err
	}
	if s.Data == "" {
		return st, nil
	}
	spools, err := spoolStates(s.Data)
	for _, sp := range spools {
		st.Spools = append(st.Spools, StatusSpool{Collector: sp.Collector, Waiting: sp.Remaining, Dropped: sp.Dropped})
	}
	return st, err
}

func statusClusters(ctx context.Context, p *app.Pipeline) ([]statusCluster, error) {
	l, err := ledger.New(p.Config.Ledger,
		ledger.Deps{Store: p.Access.DB, Clock: p.Session.Clock, Log: p.Session.Log, Registry: p.Registry})
	if err != nil {
		return nil, err
	}
	watermarks, err := l.Status(ctx)
	if err != nil {
		return nil, err
	}
	clusters := make([]statusCluster, 0, len(watermarks))
	for _, w := range watermarks {
		c := statusCluster{
			Cluster: w.Cluster, SlotSeconds: float64(w.SlotMS) / 1000, Hours: w.Hours, DirtyHours: w.DirtyHours,
			StaleHours: w.StaleHours, LateBatches: w.LateBatches,
		}
		if !w.ClosedUntil.IsZero() {
			c.ClosedUntil = w.ClosedUntil.UTC().Format(time.RFC3339)
		}
		if w.WatermarkMS > 0 {
			at := time.UnixMilli(w.WatermarkMS).UTC()
			c.Watermark, c.BehindSeconds = at.Format(time.RFC3339), int64(p.Session.Clock.Since(at).Seconds())
		}
		clusters = append(clusters, c)
	}
	return clusters, nil
}

// PrintStatus prints a status in the format of --output.
func PrintStatus(s *cli.Session, st Status) error {
	if s.Format == cli.AsJSON {
		return s.PrintJSON(st)
	}
	return s.Print(st.table())
}

// table has a row per figure: subject, name, value.
func (st Status) table() cli.Table {
	t := cli.Table{Columns: cli.Columns("of wide", "what", "value wide")}
	add := func(of, what, value string) { t.Rows = append(t.Rows, []string{of, what, value}) }
	if st.Running == nil {
		add(st.Data, "served by", "nobody")
	} else {
		add(st.Data, "served by",
			fmt.Sprintf("process %d (%s), since %s", st.Running.PID, st.Running.Command, st.Running.Since))
		add(st.Data, "http", cmp.Or(st.Running.HTTP, "the socket alone"))
		add(st.Data, "http socket", st.Running.Socket)
	}
	for _, sp := range st.Spools {
		add("spool "+sp.Collector, "batches waiting", strconv.FormatUint(sp.Waiting, 10))
		add("spool "+sp.Collector, "batches dropped", strconv.FormatUint(sp.Dropped, 10))
	}
	if st.LagMessages != nil {
		add("topic", "messages to ingest", strconv.FormatInt(*st.LagMessages, 10))
	}
	for _, c := range st.Clusters {
		add("cluster "+c.Cluster, "watermark", cmp.Or(c.Watermark, "none yet"))
		add("cluster "+c.Cluster, "behind", (time.Duration(c.BehindSeconds) * time.Second).String())
		add("cluster "+c.Cluster, "hours in the ledger", strconv.Itoa(c.Hours))
		add("cluster "+c.Cluster, "hours to recompute", strconv.Itoa(c.DirtyHours))
		add("cluster "+c.Cluster, "closed until", cmp.Or(c.ClosedUntil, "none yet"))
		if c.StaleHours > 0 || c.LateBatches > 0 {
			add("cluster "+c.Cluster, "stale hours, which stay as published", strconv.Itoa(c.StaleHours))
			add("cluster "+c.Cluster, "late batches without raw", strconv.FormatUint(c.LateBatches, 10))
		}
	}
	return t
}

// spoolStates reads the spools of a data directory, even if a process has them open.
func spoolStates(dataDir string) ([]ingest.SpoolState, error) {
	entries, err := os.ReadDir(filepath.Join(dataDir, datadir.SpoolDir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list spools: %w", err)
	}
	var out []ingest.SpoolState
	for _, e := range entries {
		if !e.IsDir() || e.Name() == "lost+found" { // the directory may be a file system's root
			continue
		}
		st, err := spool.ReadStats(filepath.Join(dataDir, datadir.SpoolDir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, ingest.SpoolState{
			Collector: e.Name(), Appended: st.Appended, Cursor: st.Cursor, Remaining: st.Records, Dropped: st.Dropped,
		})
	}
	return out, nil
}
