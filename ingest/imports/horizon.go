package imports

import (
	"fmt"

	"github.com/gputally/gputally/internal/wire"
)

// aheadMS is how far the clock here may be behind that of who wrote a file.
const aheadMS = 120_000

// Horizon bounds what an import may tell of: one wrong year moves a cluster's
// watermark there for good. NowMS is the run's instant, Unix ms; 0: no bound.
// Future takes what is yet to come, too.
type Horizon struct {
	NowMS  int64
	Future bool
}

// check refuses an instant that lies in the future, named by what.
func (h Horizon) check(what string, ms int64) error {
	if h.Future || h.NowMS == 0 || ms <= h.NowMS+aheadMS {
		return nil
	}
	return fmt.Errorf("%s %s lies in the future, it is %s (--allow-future takes it)", what, rfc3339(ms), rfc3339(h.NowMS))
}

// close is where what is still open ends: at the window's end, or now.
func (h Horizon) close(windowToMS int64) int64 {
	if h.Future || h.NowMS == 0 {
		return windowToMS
	}
	return min(windowToMS, h.NowMS)
}

// origin of a slot: what hasn't begun yet is no history, and is declared as
// simulated until an import after it says it again.
func (h Horizon) origin(slotStartMS int64) wire.Origin {
	if h.NowMS != 0 && slotStartMS > h.NowMS {
		return wire.Origin_ORIGIN_SIMULATED
	}
	return wire.Origin_ORIGIN_IMPORT
}
