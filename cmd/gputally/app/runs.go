package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gputally/gputally/internal/cli"
	"github.com/gputally/gputally/internal/clock"
	"github.com/gputally/gputally/internal/decisions"
)

// ImportSpool is the spool of imports within the data directory.
const ImportSpool = "import"

// ImportRunHours is how long an import's run stays open at most: one that was
// killed and is given again within half of that goes on under the same run.
const ImportRunHours = 24

// Follow returns the decisions, read on request. A separate
// ingester copies none: that is who bills' to do.
func (p *Pipeline) Follow() *decisions.Log {
	if p.Decisions == nil {
		opt := p.decisionOptions()
		if p.Access.data != "" {
			opt.CopyDir, opt.CopyReadOnly = p.copyDir()
		}
		p.Decisions = decisions.Follow(p.Client, opt)
		p.Group.OnStop("decisions", p.Decisions.Close)
	}
	return p.Decisions
}

// Decide appends a record by who gives this command (Session.Who), and fails where it is
// refused.
func (p *Pipeline) Decide(ctx context.Context, kind decisions.Kind, key string, body any) error {
	log := p.Follow()
	if err := log.Refresh(ctx); err != nil {
		return err
	}
	who := p.Session.Who()
	request, err := p.MayDecide(kind, key, who, body)
	if err != nil {
		return err
	}
	out, err := log.Append(ctx, kind, key, request, who, body)
	if err == nil && !out.Accepted {
		err = cli.UsageError(fmt.Errorf("%s: %s", kind, out.Reason))
	}
	return err
}

// MayDecide fails where a record would be refused, as far as the topic was read:
// nothing is appended for it. It gives the record's request.
func (p *Pipeline) MayDecide(kind decisions.Kind, key, who string, body any) (request string, err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("append %s: encode body: %w", kind, err)
	}
	request = decisions.Digest(text)
	err = p.Follow().Check(kind, key, request, who, body)
	var quota *decisions.QuotaError
	if err != nil && !errors.As(err, &quota) && p.Follow().Whole() == nil {
		err = cli.UsageError(fmt.Errorf("%s: %w", kind, err))
	}
	return request, err
}

// Declare declares the cluster that this process' own collector measures.
func (p *Pipeline) Declare(ctx context.Context, cluster string, slot time.Duration) error {
	c := decisions.Cluster{Name: cluster, SlotMS: slot.Milliseconds()}
	log := p.Follow()
	if err := log.Refresh(ctx); err != nil {
		return err
	}
	if log.PermissionFor(decisions.Sent{Cluster: cluster}).SlotMS == c.SlotMS {
		return nil
	}
	return p.Decide(ctx, decisions.KindCluster,
		"cluster/"+decisions.Digest([]byte(cluster))[:32]+"/"+slot.String(), &c)
}

// EndRuns ends the runs with these IDs, which OpenRuns returned.
func (p *Pipeline) EndRuns(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		if err := p.Decide(ctx, decisions.KindRunEnd, "run_end/"+id, &decisions.RunEnd{ID: id}); err != nil {
			return fmt.Errorf("end run %s: %w", id, err)
		}
	}
	return nil
}

// OpenRuns opens the runs that this command sends under, all or none. Of one that
// was killed the run is open still, and is taken.
func (p *Pipeline) OpenRuns(ctx context.Context, runs ...decisions.Run) (ids []string, err error) {
	if err := p.Follow().Refresh(ctx); err != nil {
		return nil, err
	}
	for i := range runs {
		r := &runs[i]
		if r.ID = p.openRun(*r); r.ID == "" {
			one := *r
			one.ID = "new"
			if _, err := p.MayDecide(decisions.KindRun, "run/new", p.Session.Who(), &one); err != nil {
				return nil, fmt.Errorf("open run: %w", err)
			}
		}
	}
	for _, r := range runs {
		if r.ID == "" {
			if r.ID, err = p.NewRun(ctx, r); err != nil {
				return ids, err
			}
		}
		ids = append(ids, r.ID)
	}
	return ids, nil
}

// NewRun opens a run under a new id.
func (p *Pipeline) NewRun(ctx context.Context, r decisions.Run) (id string, err error) {
	r.ID = rand.Text()[:13]
	if err := p.Decide(ctx, decisions.KindRun, "run/"+r.ID, &r); err != nil {
		return "", fmt.Errorf("open run: %w", err)
	}
	return r.ID, nil
}

// openRun is one that covers all of r, for half of its time at least; empty:
// there is none.
func (p *Pipeline) openRun(r decisions.Run) (id string) {
	least := p.Session.Clock.Now().Add(time.Duration(r.Hours) * time.Hour / 2)
	p.Follow().View(func(s *decisions.State) {
		for _, o := range s.Runs() {
			b := &o.Body
			if b.Cluster == r.Cluster && b.Sends == r.Sends && b.Collector == r.Collector && b.SlotMS == r.SlotMS &&
				!b.From.After(r.From) && !b.To.Before(r.To) && o.Ended == "" && o.Ends.After(least) {
				id = b.ID
			}
		}
	})
	return id
}

// CarryUnder does what sends batches under runs, which it opens first and ends
// when all has arrived. What is killed or fails leaves them open: given again it
// goes on under them, and what it left in the spool is sent under them.
func (p *Pipeline) CarryUnder(ctx context.Context, runs []decisions.Run, send func() error) error {
	for i := range runs {
		runs[i].Hours = ImportRunHours
	}
	ids, err := p.OpenRuns(ctx, runs...)
	if err != nil {
		return err
	}
	if err := send(); err != nil {
		return err
	}
	return p.EndRuns(ctx, ids...)
}

// KeepOpen keeps a run open for as long as its group runs, and ends it then.
func (p *Pipeline) KeepOpen(ctx context.Context, r decisions.Run) error {
	r.Hours = decisions.MaxRunHours
	open, err := p.OpenRuns(ctx, r)
	if err != nil {
		return err
	}
	p.Group.Go("run", func(ctx context.Context) error {
		for clock.Sleep(ctx, p.Session.Clock, decisions.MaxRunHours*time.Hour/4) == nil {
			next, err := p.OpenRuns(ctx, r)
			if err == nil && !slices.Contains(open, next[0]) {
				open = append(open, next...)
			}
			if err == nil && len(open) > 1 { // what comes from now on, the new one covers
				if err = p.EndRuns(ctx, open[:len(open)-1]...); err == nil {
					open = open[len(open)-1:]
				}
			}
			if err != nil {
				p.Session.Log.Error("the run can't be opened anew before it ends by itself", "cluster", r.Cluster, "error", err)
			}
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return p.EndRuns(ctx, open...)
	})
	return nil
}

// OtherSlots refuses a length other than that which was declared, or that of what
// is stored, where the ledger can be asked.
func (p *Pipeline) OtherSlots(ctx context.Context, cluster string, slot time.Duration) error {
	log := p.Follow()
	if err := log.Refresh(ctx); err != nil {
		return err
	}
	if ms := log.PermissionFor(decisions.Sent{Cluster: cluster}).SlotMS; ms != 0 && ms != slot.Milliseconds() {
		return cli.UsageError(fmt.Errorf("slot %s: cluster %q was declared with slots of %s", slot, cluster,
			time.Duration(ms)*time.Millisecond))
	}
	if p.Access.DB == nil {
		return nil
	}
	lengths, err := SlotLengths(ctx, p.Access.DB)
	if err != nil {
		return err
	}
	if ms, ok := lengths[cluster]; ok && ms != slot.Milliseconds() {
		return cli.UsageError(fmt.Errorf("slot %s: cluster %q has slots of %s", slot, cluster,
			time.Duration(ms)*time.Millisecond))
	}
	return nil
}
