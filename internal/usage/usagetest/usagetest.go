// Package usagetest writes ledger rows into a test's database. Data in: GPU-hours with
// their owners. Data out: rows of usage_hourly. Time of a GPU-hour without an owner is
// free, so that the row's buckets sum to its capacity.
package usagetest

import (
	"cmp"
	"testing"
	"time"

	"github.com/gputally/gputally/internal/meter"
	"github.com/gputally/gputally/internal/tables"
)

// GPUHour is one row of the ledger; the rest of its time is free.
type GPUHour struct {
	Hour    time.Time
	GPU     string
	Node    string
	Model   string
	Slices  uint32
	Version uint64
	// GPUSlices are the slices of one GPU: 1000 in a pool; 0 stands for Slices.
	GPUSlices uint16
	// Epoch (of rules and mapping) and Inputs show why usage changed.
	Epoch  uint32
	Inputs uint64
	// PresentMS is the part of the hour in the inventory; 0 stands for the whole hour.
	PresentMS        uint32
	Stranded         uint64
	Unhealthy        uint64
	Unobserved       uint64
	PlatformEnergyMJ int64
	UnattributedMJ   int64
	Owners           []Owner
}

// Owner is one owner on one leaf; times are slice-milliseconds.
type Owner struct {
	Leaf          string
	Profile       string
	ProfileSlices uint16
	Tenant        string
	Project       string
	User          string
	Workload      string
	Active        uint64
	Idle          uint64
	Unproven      uint64
	EnergyMJ      int64
}

// Insert writes the rows; a row with more time than the GPU had fails the test.
func Insert(t testing.TB, db tables.Inserter, hours ...GPUHour) {
	t.Helper()
	var rows []tables.UsageHour
	for _, h := range hours {
		h.PresentMS = cmp.Or(h.PresentMS, 3_600_000)
		free := int64(h.Slices) * int64(h.PresentMS)
		for _, used := range []uint64{h.Stranded, h.Unhealthy, h.Unobserved} {
			free -= int64(used)
		}
		row := tables.UsageHour{
			Cluster: "test", UntilMS: h.PresentMS, Version: h.Version, Epoch: h.Epoch, Inputs: h.Inputs,
			Usage: tables.Usage{
				Hour: h.Hour, GPU: h.GPU, Node: h.Node, Model: h.Model, Slices: h.Slices,
				GPUSlices: cmp.Or(h.GPUSlices, uint16(h.Slices)),
				PresentMS: h.PresentMS, Stranded: h.Stranded, Unhealthy: h.Unhealthy, Unobserved: h.Unobserved,
				PlatformEnergyMJ: h.PlatformEnergyMJ, UnattributedMJ: h.UnattributedMJ,
			},
		}
		for i, o := range h.Owners {
			if o.Idle > 0 { // at a share of the leaf, for the whole hour
				row.RestOwner, row.RestFrom = append(row.RestOwner, uint16(i)), append(row.RestFrom, 0)
				row.RestMS, row.RestSliceMS = append(row.RestMS, h.PresentMS), append(row.RestSliceMS, o.Idle)
				row.RestGrade, row.RestReleased = append(row.RestGrade, uint8(meter.RestProven)), append(row.RestReleased, 0)
			}
			free -= int64(o.Active + o.Idle + o.Unproven)
			row.Leaf, row.Profile, row.ProfileSlices = append(row.Leaf, o.Leaf), append(row.Profile,
				o.Profile), append(row.ProfileSlices, o.ProfileSlices)
			row.Tenant, row.Project = append(row.Tenant, o.Tenant), append(row.Project, o.Project)
			row.User, row.Workload = append(row.User, o.User), append(row.Workload, o.Workload)
			row.Active, row.Idle, row.Unproven = append(row.Active, o.Active), append(row.Idle, o.Idle), append(row.Unproven,
				o.Unproven)
			row.Owner, row.Inferred, row.Work = append(row.Owner, 0), append(row.Inferred, 0), append(row.Work, 0)
			row.EnergyMJ, row.Parked = append(row.EnergyMJ, o.EnergyMJ), append(row.Parked, 0)
		}
		if free < 0 {
			t.Fatalf("GPU %s at %s: %d slice-ms more than there are", h.GPU, h.Hour, -free)
		}
		row.Free = uint64(free)
		rows = append(rows, row)
	}
	if err := tables.Insert(t.Context(), db, "usage_hourly", rows...); err != nil {
		t.Fatalf("insert usage: %v", err)
	}
}
