package meter_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/gputally/gputally/internal/costtest"
	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/wire"
)

// TestSlowModelWorkedCases holds the slow model itself to the worked cases.
func TestSlowModelWorkedCases(t *testing.T) {
	files, err := filepath.Glob("../../testdata/contract/cases/*.jsonl")
	if err != nil || len(files) < 13 {
		t.Fatalf("worked cases: %d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			got := slowUsage(readBatches(t, file), nil)
			want := readUsage(t, strings.TrimSuffix(file, ".jsonl")+".csv")
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(usage{}, usageKey{})); diff != "" {
				t.Errorf("usage differs (-want +got):\n%s", diff)
			}
		})
	}
}

var (
	clusters  = flag.Uint64("clusters", 10_000, "random clusters to compare with the slow model, at most 1,000 in a short run")
	firstSeed = flag.Uint64("cluster-seed", 1, "seed of the first random cluster")
)

// TestRandomClusters compares Classify and Hour with the slow model, figure by figure.
func TestRandomClusters(t *testing.T) {
	var seen usage
	cases := *clusters
	if testing.Short() {
		cases = min(cases, 1000)
	}
	for seed := *firstSeed; seed < *firstSeed+cases; seed++ {
		batches := randomBatches(seed)
		retirements := randomRetirements(seed, batches)
		for i, b := range batches {
			if err := wire.Validate(b); err != nil {
				t.Fatalf("seed %d: batch %d: %v", seed, i, err)
			}
		}
		if difference(t, batches, retirements) != "" {
			small := shrink(t, batches, retirements)
			t.Fatalf("-cluster-seed=%d: usage differs (-slow +fast), retirements %v:\n%s\n%s", seed, retirements, difference(t, small, retirements), jsonLines(small))
		}
		for _, u := range slowUsage(batches, retirements) {
			seen = moreOf(seen, u)
		}
	}
	if cases >= 100 && slices.Contains([]int64{
		seen.active, seen.idle, seen.unproven, seen.free, seen.stranded, seen.unhealthy, seen.unobserved, seen.energy,
	}, 0) {
		t.Errorf("a bucket never occurs in %d clusters: %+v", cases, seen)
	}
}

func moreOf(a, b usage) usage {
	return usage{
		max(a.active, b.active), max(a.idle, b.idle), max(a.unproven, b.unproven), max(a.free, b.free),
		max(a.stranded, b.stranded), max(a.unhealthy, b.unhealthy), max(a.unobserved, b.unobserved), max(a.energy, b.energy),
	}
}

// difference compares Classify and Hour with the slow model, and with itself over
// an inventory that each hour reads anew from the sightings.
func difference(t *testing.T, batches []*wire.Batch, retirements map[string][]int64) string {
	t.Helper()
	fast, hours := computeRetired(t, batches, retirements)
	for _, g := range hours {
		sum := g.Free + g.Stranded + g.Unhealthy + g.Unobserved
		for _, o := range g.Owners {
			sum += o.Active + o.Idle + o.Unproven
		}
		if want := int64(g.Slices) * g.PresentMS; sum != want || g.PresentMS <= 0 || g.PresentMS > meter.HourMS {
			return fmt.Sprintf("buckets of %s sum to %d, want %d slices × %d ms = %d", g.GPU, sum, g.Slices, g.PresentMS, want)
		}
	}
	for _, g := range hours {
		if g.UnobservedAttribution < 0 || g.UnobservedAttribution > g.Unobserved {
			return fmt.Sprintf("%s: %d of %d unobserved slice-ms are for want of owners", g.GPU, g.UnobservedAttribution, g.Unobserved)
		}
	}
	figures := cmp.AllowUnexported(usage{}, usageKey{})
	if diff := cmp.Diff(slowUsage(batches, retirements), fast, figures); diff != "" {
		return diff
	}
	again, rebuilt := computeRebuilt(t, batches, retirements)
	if diff := cmp.Diff(fast, again, figures); diff != "" {
		return "an inventory read from sightings gives other figures:\n" + diff
	}
	if diff := cmp.Diff(hours, rebuilt); diff != "" {
		return "an inventory read from sightings gives other hours:\n" + diff
	}
	return ""
}

// computeRebuilt is computeCluster by a worker that starts anew for each hour.
func computeRebuilt(t *testing.T, batches []*wire.Batch, retirements map[string][]int64) (map[usageKey]usage, []meter.GPUHour) {
	t.Helper()
	var all []meter.GPUHour
	in := newClusterInput(t, batches)
	in.Retirements = retirements
	first := slices.MinFunc(batches, byStart).SlotStartMs
	got := map[usageKey]usage{}
	var sightings []meter.Sighting
	for start := first - first%meter.HourMS; start < in.WatermarkMS; start += meter.HourMS {
		in.StartMS = start
		res, err := meter.Hour(in.around(start), meter.NewInventory(sightings))
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range res.GPUs {
			in.fold(got, start, g)
		}
		sightings = append(sightings, res.Sightings...)
		all = append(all, res.GPUs...)
	}
	return got, all
}

// shrink takes away batches, GPUs, holds and leaves while a difference stays.
func shrink(t *testing.T, batches []*wire.Batch, retirements map[string][]int64) []*wire.Batch {
	t.Helper()
	for again := true; again; {
		again = false
		for _, smaller := range reductions(batches) {
			if len(smaller) > 0 && difference(t, smaller, retirements) != "" {
				batches, again = smaller, true
				break
			}
		}
	}
	return batches
}

func reductions(batches []*wire.Batch) [][]*wire.Batch {
	var out [][]*wire.Batch
	change := func(i int, by func(*wire.Batch)) {
		next := slices.Clone(batches)
		next[i] = proto.Clone(batches[i]).(*wire.Batch)
		by(next[i])
		out = append(out, next)
	}
	for i, b := range batches {
		out = append(out, slices.Delete(slices.Clone(batches), i, i+1))
		for j, g := range b.Gpus {
			change(i, func(b *wire.Batch) { b.Gpus = slices.Delete(b.Gpus, j, j+1) })
			if g.EnergyMj != nil {
				change(i, func(b *wire.Batch) { b.Gpus[j].EnergyMj = nil })
			}
			for k := range g.Holds {
				change(i, func(b *wire.Batch) { b.Gpus[j].Holds = slices.Delete(b.Gpus[j].Holds, k, k+1) })
			}
			for k, l := range g.Leaves {
				change(i, func(b *wire.Batch) {
					r := b.Gpus[j]
					r.Leaves = slices.Delete(r.Leaves, k, k+1)
					r.Holds = slices.DeleteFunc(r.Holds, func(h *wire.Hold) bool { return h.Leaf == l.Id })
				})
			}
		}
	}
	return out
}

func jsonLines(batches []*wire.Batch) string {
	var out strings.Builder
	for _, b := range batches {
		out.WriteString(protojson.Format(b))
		out.WriteByte('\n')
	}
	return out.String()
}

// FuzzClassify: whatever a batch says, Classify doesn't panic, the rows of a
// GPU sum to its slices × the observed time, and no energy is lost (C6, C9).
func FuzzClassify(f *testing.F) {
	for seed := range uint64(20) {
		for _, b := range randomBatches(seed) {
			data, err := wire.Encode(b)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, _, err := wire.Decode(data)
		if err != nil {
			return
		}
		var settled []meter.GPUSlot
		costtest.Within(t, costtest.Time, 256<<20+40*uint64(len(data)), func() { settled = meter.Classify(b, meter.NewIdentities()) })
		for i, g := range settled {
			var time, energy int64
			for _, r := range g.Rows {
				energy += r.EnergyMJ + r.UnattributedMJ
				if r.Why != meter.WhyInferred {
					time += r.SliceMS
				}
				if r.SliceMS < 0 || r.EnergyMJ < 0 {
					t.Errorf("GPU %s: a row of %d slice-ms and %d mJ", g.UUID, r.SliceMS, r.EnergyMJ)
				}
			}
			if want := int64(g.Slices) * wire.ObservedMS(b); time != want {
				t.Errorf("GPU %s: rows sum to %d slice-ms, want %d", g.UUID, time, want)
			}
			if want, _, _ := wire.Energy(b.Gpus[i], b.SlotMs); energy != want {
				t.Errorf("GPU %s: rows sum to %d mJ, want %d", g.UUID, energy, want)
			}
		}
	})
}
