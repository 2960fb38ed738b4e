package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// slotEnergyJ is what each board's energy counter moves by in a slot.
const slotEnergyJ = 18_000

// Power readings of a board, around the A100's and H100's 80 W of rest (R13).
const (
	busyWatts = 300
	restWatts = 70
)

const podLabels = `,namespace="team-a",pod="train-0",container="main"`

// scrapedRow is a line of an exposition.
func scrapedRow(field, labels string, value any) string {
	return fmt.Sprintf("%s{%s} %v\n", field, labels, value)
}

// boardRows are the board's, which an exporter repeats on each MIG instance.
func boardRows(labels string, watts int, slot int64) string {
	return scrapedRow("DCGM_FI_DEV_POWER_USAGE", labels, watts) +
		scrapedRow("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", labels, (slot+1)*slotEnergyJ*1000) +
		scrapedRow("DCGM_FI_DEV_GPU_TEMP", labels, 41)
}

// wholeGPU is an H100 without MIG. A held one works for the first half of each
// hour and rests for the second.
func wholeGPU(node string, index int, held bool, slot int64) string {
	labels := fmt.Sprintf(`gpu="%d",UUID="GPU-%s-%d",modelName="NVIDIA H100 80GB HBM3",Hostname="%s"`, index, node,
		index, node)
	watts, util, active, used := restWatts, 0, 0.001, 0
	if held {
		labels, used = labels+podLabels, 70_000
	}
	if held && slot%slotsPerHour < slotsPerHour/2 {
		watts, util, active = busyWatts, 97, 0.73
	}
	return boardRows(labels, watts, slot) +
		scrapedRow("DCGM_FI_DEV_GPU_UTIL", labels, util) +
		scrapedRow("DCGM_FI_DEV_FB_USED", labels, used) +
		scrapedRow("DCGM_FI_PROF_SM_ACTIVE", labels, active)
}

// migGPU is an A100 with two 1g.5gb instances, of which a pod has the first.
// The exporter repeats the board's values on each, has a GPU_UTIL that means
// nothing there, and names the pod on the parent's row too.
func migGPU(slot int64) string {
	const board = `gpu="0",UUID="GPU-mig",modelName="NVIDIA A100-SXM4-40GB",Hostname="n2"`
	text := boardRows(board+podLabels, busyWatts, slot) +
		scrapedRow("DCGM_FI_DEV_GPU_UTIL", board+podLabels, 55) +
		scrapedRow("DCGM_FI_PROF_SM_ACTIVE", board+podLabels, 0.4)
	for gi, pod := range map[int]string{7: podLabels, 8: ""} {
		labels := fmt.Sprintf(`%s,GPU_I_ID="%d",GPU_I_PROFILE="1g.5gb"%s`, board, gi, pod)
		active := 0.0
		if pod != "" {
			active = 0.4
		}
		text += boardRows(labels, busyWatts, slot) +
			scrapedRow("DCGM_FI_DEV_FB_USED", labels, 3000) +
			scrapedRow("DCGM_FI_PROF_SM_ACTIVE", labels, active)
	}
	return text
}

// emptyMIG is an A100 with MIG on and no instance: DCGM reads neither its
// utilisation nor its memory, and nothing says its mode.
func emptyMIG(slot int64) string {
	return boardRows(`gpu="1",UUID="GPU-empty",modelName="NVIDIA A100-SXM4-40GB",Hostname="n2"`, restWatts, slot)
}

func h100Node() *scrapedNode {
	return &scrapedNode{expose: func(slot int64) (text string) {
		for i := range 8 {
			text += wholeGPU("n1", i, i == 0, slot)
		}
		return text
	}}
}

func a100Node() *scrapedNode {
	return &scrapedNode{expose: func(slot int64) string { return migGPU(slot) + emptyMIG(slot) }}
}

func TestScrapedFleetIsMeteredByRule(t *testing.T) {
	r := newScrapeRig(t, h100Node(), a100Node())
	r.pass(t, slotsPerHour)
	r.settle(t)
	// 59 movements of each counter, 18,000 J each, once per board. Of the MIG
	// board's 300 W, 80 W are split over its seven slices, the rest is the
	// owner's (R16).
	want := []string{
		"n1 GPU-n1-0 gpu NVIDIA H100 80GB HBM3 team-a: active 12600000 idle 12600000 1062000 J",
	}
	for i := 1; i < 8; i++ {
		want = append(want, fmt.Sprintf("n1 GPU-n1-%d  NVIDIA H100 80GB HBM3 : free 25200000 1062000 J", i))
	}
	want = append(want,
		"n2 GPU-empty  NVIDIA A100-SXM4-40GB : stranded 25200000 1062000 J",
		"n2 GPU-mig  NVIDIA A100-SXM4-40GB : free 3600000 stranded 18000000 242742 J",
		"n2 GPU-mig gi7 NVIDIA A100-SXM4-40GB team-a: active 3600000 819257 J",
	)
	if diff := cmp.Diff(want, r.usage(t, 1, "node", "gpu", "leaf", "model", "tenant")); diff != "" {
		t.Errorf("first hour (-want +got):\n%s", diff)
	}
	if got := r.counter(t, "gputally_exporter_parent_owners_ignored_total"); got != slotsPerHour {
		t.Errorf("owners on the parent's row: %v were ignored, want one per slot", got)
	}
	if got := r.counter(t, "gputally_exporter_mig_inferred"); got != 1 {
		t.Errorf("%v GPUs have their MIG mode inferred, want the empty one", got)
	}
	r.verify(t)
}

func TestSilentTargetIsUnobservedForAsLong(t *testing.T) {
	n1, n2 := h100Node(), a100Node()
	r := newScrapeRig(t, n1, n2)
	r.pass(t, 75)
	n2.silent.Store(true)
	r.pass(t, 2*slotsPerHour)
	n2.silent.Store(false)
	r.pass(t, 45)
	r.settle(t)
	var want []string
	want = append(want, hourOfBoth(0, 0, 59, 59, 0)...)
	want = append(want, hourOfBoth(1, 45, 60, 15, 0)...)
	want = append(want, hourOfBoth(2, 60, 60, 0, 0)...)
	want = append(want, hourOfBoth(3, 15, 60, 44, 2*(2*slotsPerHour+1)*slotEnergyJ)...)
	if diff := cmp.Diff(want, r.usage(t, 4, "hour", "node", "tenant")); diff != "" {
		t.Errorf("four hours (-want +got):\n%s", diff)
	}
	if got := r.counter(t, "gputally_collector_read_errors_total"); got != 2*slotsPerHour {
		t.Errorf("%v readings failed, want those of two hours", got)
	}
	r.verify(t)
}

// hourOfBoth are the lines of an hour in which n2 was unseen for some slots.
// moves are the movements of its counters that belong to a slot; what moved
// meanwhile belongs to none.
func hourOfBoth(hour, unseen, movesN1, moves, unattributedJ int) []string {
	at := firstHour.Add(time.Duration(hour) * time.Hour).Format("2006-01-02T15:00:00Z")
	const minuteMS = 60_000
	seenMS, unseenMS := (slotsPerHour-unseen)*minuteMS, unseen*minuteMS
	platform := fmt.Sprintf("%s n2 :", at)
	if seenMS > 0 {
		platform += fmt.Sprintf(" free %d stranded %d", seenMS, 12*seenMS)
	}
	if unseenMS > 0 {
		platform += fmt.Sprintf(" unobserved %d", 14*unseenMS)
	}
	owner := fmt.Sprintf("%s n2 team-a: active %d", at, seenMS)
	if moves > 0 {
		platform += fmt.Sprintf(" %d J", moves*22_114_286/1000)
		owner += fmt.Sprintf(" %d J", moves*13_885_714/1000)
	}
	lines := []string{
		fmt.Sprintf("%s n1 : free 176400000 %d J", at, 7*movesN1*slotEnergyJ),
		fmt.Sprintf("%s n1 team-a: active 12600000 idle 12600000 %d J", at, movesN1*slotEnergyJ),
		platform,
	}
	if unattributedJ > 0 {
		lines = append(lines, fmt.Sprintf("%s n2 (unattributed): %d J", at, unattributedJ))
	}
	if seenMS > 0 {
		lines = append(lines, owner)
	}
	return lines
}

// TestNodeThatNeverComesBack: its GPUs stay in the inventory for a day, in
// which nobody could see them, and leave it then (R2).
func TestNodeThatNeverComesBack(t *testing.T) {
	const hours = 27
	stays := &scrapedNode{expose: func(slot int64) string { return wholeGPU("n1", 0, true, slot) }}
	goes := &scrapedNode{expose: func(slot int64) string { return wholeGPU("n2", 0, false, slot) }}
	r := newScrapeRig(t, stays, goes)
	r.pass(t, slotsPerHour)
	goes.silent.Store(true)
	r.pass(t, (hours-1)*slotsPerHour)
	r.settle(t)
	var want []string
	for hour := range hours {
		at, moves := firstHour.Add(time.Duration(hour)*time.Hour).Format("2006-01-02T15:00:00Z"), slotsPerHour
		if hour == 0 {
			moves--
		}
		want = append(want, fmt.Sprintf("%s GPU-n1-0: active 12600000 idle 12600000 %d J", at, moves*slotEnergyJ))
		switch {
		case hour == 0:
			want = append(want, fmt.Sprintf("%s GPU-n2-0: free 25200000 %d J", at, moves*slotEnergyJ))
		case hour <= 24:
			want = append(want, fmt.Sprintf("%s GPU-n2-0: unobserved 25200000", at))
		}
	}
	if diff := cmp.Diff(want, r.usage(t, hours, "hour", "gpu")); diff != "" {
		t.Errorf("%d hours (-want +got):\n%s", hours, diff)
	}
	r.verify(t)
}
