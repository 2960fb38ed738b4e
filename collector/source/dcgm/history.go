package dcgm

import (
	"time"

	"github.com/gputally/gputally/collector/source/gpustate"
	"github.com/gputally/gputally/collector/source/local"
)

// overlap is how far a reading of XIDs goes back before the previous one: DCGM timestamps an event before clients can
// read it.
const overlap = 5 * time.Second

// history is up to which time the node's events have been read.
type history struct {
	fromUS int64 // when watching began: earlier XIDs are ignored
	readUS int64 // XIDs were read up to here
	xids   map[place]int64
	bind   bindState
	bindUS int64 // field 6 was read up to here
}

// place is where XIDs are stored: at one level only, the GPU's or an instance's.
type place struct {
	gpu  string
	part gpustate.Part
}

// bindState is the latest value of field 6 (DCGM_FI_BIND_UNBIND_EVENT).
type bindState int

const (
	bindUnknown bindState = iota // nothing was read yet
	bindQuiet                    // no event so far
	bindBusy                     // reinitialising
	bindDone                     // reinitialised
)

func newHistory() history { return history{xids: map[place]int64{}} }

// connected starts the history again: a new host engine may not know earlier events.
func (h *history) connected(nowUS int64) {
	if h.fromUS == 0 {
		h.fromUS, h.readUS = nowUS, nowUS
	}
	h.bind, h.bindUS = bindUnknown, nowUS
}

// pending are events to be added to the next reading.
type pending struct {
	xids     []local.XID
	detached bool            // the driver is unloaded
	reset    bool            // the driver was reloaded,
	told     map[string]bool // which was reported for these GPUs
}

func (p *pending) resetAll() { p.reset, p.told = true, map[string]bool{} }

// deliver adds the XIDs to a reading, and a reset once to each GPU.
func (p *pending) deliver(r *local.Reading) {
	for i := range r.GPUs {
		b := &r.GPUs[i]
		b.Reset = p.reset && !p.told[b.UUID]
		if b.Reset {
			p.told[b.UUID] = true
		}
	}
	if r.Complete {
		p.reset = false
	}
	r.XIDs, p.xids = p.xids, nil
}

// readXIDs reads events since the last time. DCGM lists a place's events in ascending order, so an event newer than
// the last one is new.
func (s *Source) readXIDs() error {
	ses := s.session
	if ses.watches.xid == nil {
		return nil
	}
	nowUS := s.deps.Clock.Now().UnixMicro()
	records, err := ses.link.since(ses.watches.xid, s.history.readUS-overlap.Microseconds())
	for i := range records {
		s.takeXID(&records[i])
	}
	if err != nil {
		return err
	}
	s.history.readUS = nowUS
	return nil
}

func (s *Source) takeXID(r *record) {
	p := s.session.layout.of(r)
	if p == nil || uint16(r.field) != xidFields[0] || r.status != 0 {
		return
	}
	code, ok := valueOf(r)
	at := int64(r.ts_us)
	where := place{s.session.layout.boards[p.board].UUID, p.where}
	if !ok || code <= 0 || at <= max(s.history.fromUS, s.history.xids[where], p.sinceUS) {
		return
	}
	s.history.xids[where] = at
	s.pending.xids = append(s.pending.xids, local.XID{
		At: time.UnixMicro(at).UTC(), UUID: where.gpu, Part: where.part,
		Code: int64(code),
	})
}

// readBind detects that the driver was reloaded, which DCGM reports in field 6 since 4.5. The ids of GPUs may then
// denote others.
func (s *Source) readBind() error {
	ses := s.session
	if ses.watches.bind == nil {
		return nil
	}
	records, err := ses.link.since(ses.watches.bind, s.history.bindUS)
	if err != nil {
		return err
	}
	h := &s.history
	for i := range records {
		v, ok := valueOf(&records[i])
		h.bindUS = max(h.bindUS, int64(records[i].ts_us)+1)
		switch {
		case !ok || records[i].status != 0:
			continue
		case v != bindCompleted:
			h.bind = bindBusy
		default:
			if h.bind == bindQuiet || h.bind == bindBusy {
				s.pending.resetAll()
				ses.remake = true
			}
			h.bind = bindDone
		}
	}
	if h.bind == bindUnknown {
		h.bind = bindQuiet
	}
	return nil
}
