package imports

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gputally/gputally/internal/wire"
)

// errNonexistent reports a local time that a change to summer time skipped.
var errNonexistent = errors.New("no such local time: the clock change to summer time skipped it")

// Layouts with a UTC offset, and those that need a time zone. Go accepts a fraction of
// seconds in any of them.
var (
	zonedLayouts = []string{
		time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z0700",
		"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 -07:00",
	}
	localLayouts = []string{
		"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006/01/02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04",
		"2006-01-02",
	}
)

// absentWords are the texts that mean "no time given".
var absentWords = map[string]bool{
	"": true, "unknown": true, "none": true, "null": true, "nan": true, "nat": true, "n/a": true, "-": true,
}

// moments are the instants that a text may mean: two for a local time that occurred
// twice, none if no time is given.
type moments []int64

// ParseTime reads RFC 3339, epoch seconds, or a local time in the zone, and returns
// Unix ms; fractions of a millisecond are cut off. A local time that occurred twice
// means its first occurrence; one that never occurred is an error.
func ParseTime(text string, zone *time.Location) (ms int64, err error) {
	all, err := parseMoments(text, zone)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0, fmt.Errorf("time %q: a time is required", text)
	}
	return all[0], nil
}

func parseMoments(text string, zone *time.Location) (moments, error) {
	if absentWords[strings.ToLower(text)] {
		return nil, nil
	}
	if ms, ok, err := epoch(text); ok {
		if err != nil {
			return nil, err
		}
		return inRange(text, moments{ms})
	}
	for _, layout := range zonedLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return inRange(text, moments{t.UnixMilli()})
		}
	}
	for _, layout := range localLayouts {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		all := localTimes(t, zone)
		if len(all) == 0 {
			return nil, fmt.Errorf("time %q in %s: %w", text, zone, errNonexistent)
		}
		return inRange(text, all)
	}
	return nil, fmt.Errorf("time %q: must be RFC 3339, epoch seconds, or a local time such as 2026-03-01 08:30:00", text)
}

// localTimes are the instants at which clocks in the zone showed a wall time.
func localTimes(wall time.Time, zone *time.Location) moments {
	var out moments
	for _, reach := range [...]time.Duration{-24 * time.Hour, 24 * time.Hour} {
		_, offset := wall.Add(reach).In(zone).Zone()
		at := wall.Add(-time.Duration(offset) * time.Second)
		if _, shown := at.In(zone).Zone(); shown != offset {
			continue
		}
		if ms := at.UnixMilli(); len(out) == 0 || out[0] != ms {
			out = append(out, ms)
		}
	}
	if len(out) == 2 && out[0] > out[1] {
		out[0], out[1] = out[1], out[0]
	}
	return out
}

// epoch reads seconds since 1970, with a fraction. ok reports whether the text is a
// number.
func epoch(text string) (ms int64, ok bool, err error) {
	whole, fraction, _ := strings.Cut(text, ".")
	if whole == "" || strings.Trim(whole, "0123456789") != "" || strings.Trim(fraction, "0123456789") != "" {
		return 0, false, nil
	}
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds > math.MaxInt64/1000-1 || seconds*1000 >= wire.MaxTimeMS {
		return 0, true, fmt.Errorf("time %q: epoch seconds must be before 2106; write milliseconds as a fraction", text)
	}
	fraction = (fraction + "000")[:3]
	part, err := strconv.ParseInt(fraction, 10, 64)
	if err != nil {
		return 0, true, fmt.Errorf("time %q: %w", text, err)
	}
	return seconds*1000 + part, true, nil
}

func inRange(text string, all moments) (moments, error) {
	for _, ms := range all {
		if ms < wire.MinTimeMS || ms >= wire.MaxTimeMS {
			return nil, fmt.Errorf("time %q: must lie between 2000-01-01T00:00:00Z and 2106-02-07T06:28:16Z", text)
		}
	}
	return all, nil
}

// parseDuration reads seconds with a fraction, or [days-]hours:minutes:seconds, and
// returns ms; fractions of a millisecond are cut off.
func parseDuration(text string) (ms int64, err error) {
	if ms, ok, err := epoch(text); ok {
		return ms, err
	}
	bad := fmt.Errorf("duration %q: must be seconds, or [days-]hours:minutes:seconds", text)
	days, clock, dashed := strings.Cut(text, "-")
	if !dashed {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	if len(parts) != 3 {
		return 0, bad
	}
	total := int64(0)
	for i, unit := range []int64{24 * 3_600_000, 3_600_000, 60_000} {
		n, err := strconv.ParseUint([]string{days, parts[0], parts[1]}[i], 10, 24)
		if err != nil {
			return 0, bad
		}
		total += int64(n) * unit
	}
	seconds, ok, err := epoch(parts[2])
	if !ok || err != nil {
		return 0, bad
	}
	return total + seconds, nil
}

// maxGPUs is the greatest number of GPUs in a pool.
const maxGPUs = 1_000_000

// parseMilliGPUs reads a number of GPUs with up to three decimal places.
func parseMilliGPUs(text string) (milli uint32, err error) {
	whole, fraction, _ := strings.Cut(text, ".")
	fraction = strings.TrimRight(fraction, "0")
	if whole == "" || strings.Trim(whole, "0123456789") != "" || strings.Trim(fraction, "0123456789") != "" {
		return 0, fmt.Errorf("gpus %q: must be a number of GPUs", text)
	}
	if len(fraction) > 3 {
		return 0, fmt.Errorf("gpus %q: must have at most three decimal places", text)
	}
	n, err := strconv.ParseUint(whole, 10, 32)
	if err != nil || n > maxGPUs {
		return 0, fmt.Errorf("gpus %q: must be at most %d", text, maxGPUs)
	}
	part, err := strconv.ParseUint((fraction + "000")[:3], 10, 32)
	if err != nil || n == maxGPUs && part > 0 {
		return 0, fmt.Errorf("gpus %q: must be at most %d", text, maxGPUs)
	}
	return uint32(n*1000 + part), nil
}

// aheadMS is how far this machine's clock may be behind the clock behind a file's
// times.
const aheadMS = 120_000

// Horizon bounds the times that an import may contain: one wrong year would move a
// cluster's watermark for good. NowMS is the start of the run, Unix ms; 0: no bound.
// Future allows future times.
type Horizon struct {
	NowMS  int64
	Future bool
}

// check returns an error that names what, if ms is in the future.
func (h Horizon) check(what string, ms int64) error {
	if h.Future || h.NowMS == 0 || ms <= h.NowMS+aheadMS {
		return nil
	}
	return fmt.Errorf("%s %s is in the future (now %s); --allow-future allows that", what, rfc3339(ms), rfc3339(h.NowMS))
}

// close is the end of allocations that are still open: the window's end, or now.
func (h Horizon) close(windowToMS int64) int64 {
	if h.Future || h.NowMS == 0 {
		return windowToMS
	}
	return min(windowToMS, h.NowMS)
}

// origin is the origin of a slot's batches. A slot that hasn't begun yet is simulated
// until an import after it publishes it again.
func (h Horizon) origin(slotStartMS int64) wire.Origin {
	if h.NowMS != 0 && slotStartMS > h.NowMS {
		return wire.Origin_ORIGIN_SIMULATED
	}
	return wire.Origin_ORIGIN_IMPORT
}
