package invoice

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/gputally/gputally/billing/prices"
	"github.com/gputally/gputally/billing/rating"
	"github.com/gputally/gputally/internal/decisions"
)

// plan is what finalising a month would decide, from one reading of the ledger. Nothing is appended for it.
type plan struct {
	book      *prices.Book
	documents []Invoice // by tenant, as they would be finalised
	copies    *copies
	freeze    *rating.Freeze // of the hours from from to to that are not frozen yet
	from, to  time.Time
	hours     []time.Time      // of the ledger in the range, ascending
	unrated   error            // why hours can't be frozen
	unpriced  map[string]error // models of those hours without a rate
}

// plan returns an error if a condition of the month refuses it, whatever the tenants.
func (r *Register) plan(ctx context.Context, q FinaliseRequest, period rating.Period) (*plan, error) {
	p := &plan{unpriced: map[string]error{}}
	var err error
	if p.book, err = r.bookInForce(); err != nil {
		return nil, err
	}
	p.from, p.to = span(p.book, period, q.Tenants)
	if err := r.deps.Closed(ctx, p.to); err != nil {
		return nil, err
	}
	if p.copies, err = newCopies(); err != nil {
		return nil, err
	}
	month, err := r.read(ctx, q, period, p)
	if err != nil {
		return nil, err
	}
	if len(p.hours) == 0 && !q.WithoutUsage {
		return nil, ErrNoUsage
	}
	if p.unrated != nil {
		return nil, p.unrated
	}
	if len(p.unpriced) > 0 && !q.WithoutUnpriced {
		return nil, p.lacking()
	}
	p.documents, err = wanted(month, q)
	return p, err
}

// read reads the ledger once: documents and the freeze follow from the same rows.
func (r *Register) read(ctx context.Context, q FinaliseRequest, period rating.Period, p *plan) (*Month, error) {
	begin, end := period.Range()
	frozen, err := r.frozen(ctx, begin, end)
	if err != nil {
		return nil, err
	}
	p.freeze = rating.NewFreeze(p.book)
	run := newRun(p.book, period, rating.Options{Frozen: frozen, Copy: func(tenant string) io.Writer {
		if len(q.Tenants) > 0 && !slices.Contains(q.Tenants, tenant) || len(r.chain(tenant, q.Period)) > 0 {
			return nil // only its hash is needed
		}
		return p.copies.tenant(tenant)
	}})
	err = readMonth(ctx, r.deps.DB, run, func(h hourOfUsage) error {
		if !h.hour.Before(p.from) && h.hour.Before(p.to) {
			if p.hours = append(p.hours, h.hour); !frozen.Covers(h.hour) && p.unrated == nil {
				p.unrated = p.freeze.AddHour(h.hour, h.rows)
				p.lack(h.unpriced)
			}
		}
		return run.add(h)
	})
	if err != nil {
		return nil, err
	}
	return run.finish()
}

// lacking returns an error with the models, in the order of their names.
func (p *plan) lacking() (err error) {
	for _, model := range slices.Sorted(maps.Keys(p.unpriced)) {
		err = errors.Join(err, p.unpriced[model])
	}
	return err
}

// maxLacking bounds the number of models in that error.
const maxLacking = 20

func (p *plan) lack(models []*rating.MissingModelError) {
	for _, m := range models {
		if _, known := p.unpriced[m.Model]; !known && len(p.unpriced) < maxLacking {
			p.unpriced[m.Model] = m
		}
	}
}

// has returns whether the ledger has an hour of a document's month.
func (p *plan) has(i *intent) bool {
	return slices.ContainsFunc(p.hours, func(hour time.Time) bool {
		return !hour.Before(i.record.From) && hour.Before(i.record.To)
	})
}

// span is the range of the tenants' months; without tenants, of the months in all zones of the book.
func span(b *prices.Book, period rating.Period, tenants []string) (from, to time.Time) {
	if len(tenants) == 0 {
		tenants = []string{""}
		for tenant := range b.TenantZones {
			tenants = append(tenants, tenant)
		}
	}
	for i, tenant := range tenants {
		begin, end := period.Bounds(b.Location(tenant))
		if i == 0 || begin.Before(from) {
			from = begin
		}
		if i == 0 || end.After(to) {
			to = end
		}
	}
	return from, to
}

// wanted returns the requested documents as they would be finalised. One without any line, such as of a reservation
// that could never be supplied, is left out: nothing was used and nothing is owed.
func wanted(month *Month, q FinaliseRequest) ([]Invoice, error) {
	documents := slices.DeleteFunc(slices.Clone(month.Invoices), func(i Invoice) bool {
		return len(i.Lines) == 0 && i.Quarantined == "" || len(q.Tenants) > 0 && !slices.Contains(q.Tenants, i.Tenant)
	})
	for _, tenant := range q.Tenants {
		if !slices.ContainsFunc(documents, func(i Invoice) bool { return i.Tenant == tenant }) {
			return nil, fmt.Errorf("%w of tenant %q: it has no usage, minimum, supplied reservation or frozen part of the month",
				ErrNotFound, tenant)
		}
	}
	if len(documents) == 0 {
		return nil, fmt.Errorf("%w: no tenant has usage, a minimum or a supplied reservation in the month", ErrNotFound)
	}
	for i := range documents {
		documents[i].Status = StatusFinalised
	}
	return documents, nil
}

// judge returns for each document of a plan whether it is refused, decided already, or can be decided.
func (r *Register) judge(ctx context.Context, q FinaliseRequest, p *plan) (
	accepted []*intent, done []Decided, refused error,
) {
	bases := ledgerStates{db: r.deps.DB, of: map[[2]time.Time]ledgerState{}}
	for n := range p.documents {
		document := &p.documents[n]
		if chain := r.chain(document.Tenant, document.Period); len(chain) > 0 {
			done = append(done, decided(chain[0], true))
			continue
		}
		i, err := r.intend(ctx, q, p, document, &bases)
		if err != nil {
			err = fmt.Errorf("finalise invoice %s: %w", document.Number, err)
			if general(err) {
				return nil, nil, err
			}
			refused = errors.Join(refused, err)
			continue
		}
		accepted = append(accepted, i)
	}
	return accepted, done, refused
}

func (r *Register) intend(
	ctx context.Context, q FinaliseRequest, p *plan, document *Invoice, bases *ledgerStates,
) (*intent, error) {
	if document.Quarantined != "" {
		return nil, conflict(document.Withheld, "%s", document.Quarantined)
	}
	usage, err := p.copies.text(document.Tenant)
	if err != nil {
		return nil, err
	}
	i := &intent{kind: decisions.KindInvoice, key: q.Key, who: q.Who}
	if i.key == "" {
		i.key = "invoice/" + request(document.Number) // names may have characters that a key must not have
	}
	if _, err := i.of(document, usage); err != nil {
		return nil, err
	}
	if !q.WithoutUsage && !p.has(i) {
		return nil, ErrNoUsage
	}
	basis, err := bases.at(ctx, document)
	if err != nil {
		return nil, err
	}
	i.record.Epoch, i.record.Inputs = basis.epoch, basis.inputs
	return i, r.refuse(i, q.Expect, q.Approved)
}

// prepare appends what the accepted documents refer to: the book if none is published, the mapping of their usage,
// and the freeze of their hours. ready is false if other processes published another book or froze other hours
// meanwhile.
func (r *Register) prepare(ctx context.Context, who string, p *plan, accepted []*intent) (ready bool, err error) {
	if err := r.deps.Decisions.Refresh(ctx); err != nil { // reading the ledger took time
		return false, err
	}
	if _, ok := r.publishedInForce(); !ok {
		if _, err := r.publish(ctx, p.book, who, ""); err != nil {
			return false, err
		}
	}
	if inForce, ok := r.publishedInForce(); !ok || inForce.SHA256 != p.book.Hash {
		return false, nil
	}
	if _, err := r.noteMappings(ctx); err != nil {
		return false, err
	}
	from, to := accepted[0].record.From, accepted[0].record.To
	for _, i := range accepted {
		if i.record.From.Before(from) {
			from = i.record.From
		}
		if i.record.To.After(to) {
			to = i.record.To
		}
	}
	for _, gap := range ask(r, func(s *decisions.State) []decisions.Span { return s.Unfrozen(from, to) }) {
		if ours, err := r.freezeGap(ctx, p, gap, who); err != nil || !ours {
			return false, err
		}
	}
	return true, nil
}

func (r *Register) decidePlanned(ctx context.Context, p *plan, i *intent) (Decided, error) {
	usage, err := p.copies.text(i.record.Tenant)
	if err != nil {
		return Decided{}, err
	}
	return r.decide(ctx, i, usage)
}

// copies stores the usage copies of one pass over a month, of all tenants at the same time, compressed to about a
// fifteenth: only one of them is in memory as text.
type copies struct {
	packer *flate.Writer
	of     map[string]*packedCopy
}

func newCopies() (*copies, error) {
	packer, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	return &copies{packer: packer, of: map[string]*packedCopy{}}, err
}

// tenant begins a copy.
func (c *copies) tenant(name string) io.Writer {
	c.of[name] = &packedCopy{packer: c.packer}
	return c.of[name]
}

// text returns a tenant's copy.
func (c *copies) text(name string) ([]byte, error) {
	packed := c.of[name]
	if packed == nil {
		return nil, fmt.Errorf("read usage copy of tenant %q: not found", name)
	}
	text, err := packed.text()
	if err != nil {
		return nil, fmt.Errorf("unpack usage copy of tenant %q: %w", name, err)
	}
	return text, nil
}

// packBytes is how much of a copy is collected until it is compressed as a DEFLATE stream (RFC 1951): all copies
// share one compressor.
const packBytes = 32 << 10

type packedCopy struct {
	packer *flate.Writer
	open   []byte
	packed bytes.Buffer
	bytes  int
}

func (c *packedCopy) Write(text []byte) (int, error) {
	c.open = append(c.open, text...)
	c.bytes += len(text)
	if len(c.open) < packBytes {
		return len(text), nil
	}
	return len(text), c.pack()
}

func (c *packedCopy) pack() error {
	if len(c.open) == 0 {
		return nil
	}
	c.packer.Reset(&c.packed)
	_, err := c.packer.Write(c.open)
	c.open = c.open[:0]
	return errors.Join(err, c.packer.Close())
}

func (c *packedCopy) text() ([]byte, error) {
	if err := c.pack(); err != nil {
		return nil, err
	}
	text := bytes.NewBuffer(make([]byte, 0, c.bytes+bytes.MinRead))
	for packed := bytes.NewReader(c.packed.Bytes()); packed.Len() > 0; {
		if _, err := text.ReadFrom(flate.NewReader(packed)); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// frozen is what was decided of the hours in [from, to).
func (r *Register) frozen(ctx context.Context, from, to time.Time) (*rating.Frozen, error) {
	frozen := rating.NewFrozen()
	for _, decided := range ask(r, (*decisions.State).Freezes) {
		f := &decided.Body
		if !f.From.Before(to) || !from.Before(f.To) {
			continue
		}
		text, err := r.deps.Decisions.Read(ctx, f.Copy)
		if err != nil {
			return nil, fmt.Errorf("read frozen hours of %s: %w", f.From.Format(time.RFC3339), err)
		}
		if err := frozen.AddFreeze(f.From, f.To, text); err != nil {
			return nil, err
		}
	}
	return frozen, nil
}

// freezeGap freezes a range of hours according to a plan. ours is false if another process froze other hours, or the
// same differently.
func (r *Register) freezeGap(ctx context.Context, p *plan, gap decisions.Span, who string) (ours bool, err error) {
	from, to := gap.From.UTC(), gap.To.UTC()
	document, err := r.deps.Decisions.Put(ctx, p.freeze.Text(from, to))
	if err != nil {
		return false, fmt.Errorf("freeze hours from %s to %s: %w", from.Format(time.RFC3339), to.Format(time.RFC3339), err)
	}
	key := "freeze/" + from.Format(time.RFC3339) + "/" + to.Format(time.RFC3339)
	body := &decisions.Freeze{From: from, To: to, PriceBook: p.book.Hash, Copy: document}
	outcome, err := r.deps.Decisions.Append(ctx, decisions.KindFreeze, key, request("freeze", document.SHA256), who, body)
	return outcome.Accepted, err
}
