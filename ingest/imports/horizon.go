package imports

import (
	"fmt"

	"github.com/gputally/gputally/internal/wire"
)

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
