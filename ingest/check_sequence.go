package ingest

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"

	"github.com/gputally/gputally/internal/check"
	"github.com/gputally/gputally/internal/plural"
)

// Announced gaps: ranges of sequence numbers that will never arrive.
const selectGaps = `
SELECT DISTINCT collector, gap_boot, gap_from, gap_to FROM batches FINAL
WHERE status IN ('stored', 'late') AND notEmpty(gap_from)`

// Ranges of missing sequence numbers between existing ones.
//
//go:embed holes.sql
var selectHoles string

type gapRow struct {
	Collector string   `ch:"collector"`
	Boot      []uint64 `ch:"gap_boot"`
	From      []uint64 `ch:"gap_from"`
	To        []uint64 `ch:"gap_to"`
}

type holeRow struct {
	Collector string `ch:"collector"`
	BootMS    uint64 `ch:"boot_ms"`
	From      uint64 `ch:"from_seq"`
	To        uint64 `ch:"to_seq"`
}

// seqRange is [from, to] of a boot's sequence numbers.
type seqRange struct{ from, to uint64 }

type bootKey struct {
	collector string
	bootMS    uint64
}

// announced holds the announced gaps of each boot.
type announced map[bootKey][]seqRange

// merge sorts each boot's gaps and joins those that touch or overlap: an announcement
// is repeated until its arrival is certain.
func (a announced) merge() {
	for of, gaps := range a {
		slices.SortFunc(gaps, func(a, b seqRange) int { return cmp.Compare(a.from, b.from) })
		n := 0 // index of the gap being extended
		for _, g := range gaps[1:] {
			if g.from <= gaps[n].to+1 {
				gaps[n].to = max(gaps[n].to, g.to)
				continue
			}
			n++
			gaps[n] = g
		}
		a[of] = gaps[:n+1]
	}
}

// cover reports whether every number of r was announced. merge must have been called.
func (a announced) cover(of bootKey, r seqRange) bool {
	after, _ := slices.BinarySearchFunc(a[of], r.from, func(g seqRange, from uint64) int {
		if g.from <= from {
			return -1
		}
		return 1
	})
	return after > 0 && r.to <= a[of][after-1].to
}

func (d CheckDeps) gaps(ctx context.Context) (announced, error) {
	var rows []gapRow
	if err := d.Store.Select(ctx, &rows, selectGaps); err != nil {
		return nil, fmt.Errorf("read announced gaps: %w", err)
	}
	out := announced{}
	for _, g := range rows {
		for i := range g.From {
			key := bootKey{g.Collector, g.Boot[i]}
			out[key] = append(out[key], seqRange{g.From[i], g.To[i]})
		}
	}
	out.merge()
	return out, nil
}

// checkSequence proves that every sequence number of a boot has arrived or was
// announced as missing, and that each boot's first batch names the end of the boot
// before it (C4).
func (d CheckDeps) checkSequence(ctx context.Context, res *check.Result) error {
	boots, err := d.boots(ctx)
	if err != nil {
		return err
	}
	gaps, err := d.gaps(ctx)
	if err != nil {
		return err
	}
	var holes []holeRow
	if err := d.Store.Select(ctx, &holes, selectHoles); err != nil {
		return fmt.Errorf("read gaps in sequence numbers: %w", err)
	}
	counted := map[bootKey]bool{}
	var batches, expected, lost uint64
	for i := range boots {
		batches += boots[i].Seqs
		counted[bootKey{boots[i].Collector, boots[i].BootMS}] = boots[i].Counted == 1
	}
	miss := func(of bootKey, r seqRange) {
		if numbers := r.to - r.from + 1; gaps.cover(of, r) {
			expected += numbers
		} else {
			lost += numbers
			res.Fail("collector %s, boot %d: sequence numbers %d to %d are missing and weren't announced", of.collector,
				of.bootMS, r.from, r.to)
		}
	}
	for _, h := range holes {
		of := bootKey{h.Collector, h.BootMS}
		if h.From == 0 && !counted[of] {
			continue // a collector's boot starts at 0; batches from other senders may be an excerpt
		}
		miss(of, seqRange{h.From, h.To})
	}
	checkChain(boots, res, miss)
	res.Checked = int64(len(boots))
	res.Figures = fmt.Sprintf("%d sequence numbers in %s, %d missing and announced", batches,
		plural.Of(len(boots), "boot"), expected)
	if lost > 0 {
		res.Say(fmt.Sprintf("%d missing and not announced", lost))
	}
	return nil
}

// checkChain follows the boots of each collector: the last batch that a boot names as
// the end of the boot before it must have arrived too.
func checkChain(boots []boot, res *check.Result, miss func(bootKey, seqRange)) {
	for i := 1; i < len(boots); i++ {
		before, b := &boots[i-1], &boots[i]
		if b.Collector != before.Collector || b.Counted == 0 || before.Counted == 0 || b.First != 0 {
			continue
		}
		named := bootKey{b.Collector, b.PrevBootMS}
		switch {
		case b.PrevBootMS == 0:
			res.Fail("collector %s, boot %d: its first batch must name the boot before it, %d, but names none", b.Collector,
				b.BootMS, before.BootMS)
		case b.PrevBootMS != before.BootMS: // the boot before it was lost completely
			miss(named, seqRange{0, b.PrevSeq})
		case b.PrevSeq > before.Last:
			miss(named, seqRange{before.Last + 1, b.PrevSeq})
		}
	}
}
