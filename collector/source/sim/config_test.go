package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputally/gputally/internal/wire"
)

func TestDefaultConfigIsValidAndSaysWhatItIs(t *testing.T) {
	c := DefaultConfig()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	gpus := 0
	for _, n := range c.Nodes {
		gpus += len(n.Boards)
	}
	if gpus != 32 || len(c.Tenants) != 6 || !strings.HasSuffix(c.Cluster, "-sim") {
		t.Errorf("%d GPUs, %d tenants, cluster %q", gpus, len(c.Tenants), c.Cluster)
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"cluster is empty":                                    func(c *Config) { c.Cluster = "" },
		"window_to":                                           func(c *Config) { c.WindowTo = c.WindowFrom },
		"nodes is empty":                                      func(c *Config) { c.Nodes = nil },
		`nodes[1].name "sim-node-1"`:                          func(c *Config) { c.Nodes[1].Name = "sim-node-1" },
		`model "B200" is not in models`:                       func(c *Config) { c.Nodes[0].Model = "B200" },
		`scheduler "nomad"`:                                   func(c *Config) { c.Nodes[0].Scheduler = "nomad" },
		"max_watts 1 above":                                   func(c *Config) { c.Models[0].MaxWatts = 1 },
		"instances have 8 slices, the model has 7":            func(c *Config) { c.Nodes[2].Boards[0].Instances[0].Slices = 2 },
		"without mig":                                         func(c *Config) { c.Nodes[2].Boards[0].MIG = false },
		"only a whole GPU is time-sliced":                     func(c *Config) { c.Nodes[2].Boards[0].Replicas = 2 },
		"instances_from 672h0m0s":                             func(c *Config) { c.Nodes[2].Boards[0].InstancesFrom = 28 * day },
		`zone "Mars/Olympus"`:                                 func(c *Config) { c.Tenants[0].Zone = "Mars/Olympus" },
		"work_from 20h0m0s to work_to 18h0m0s":                func(c *Config) { c.Tenants[0].WorkFrom = 20 * time.Hour },
		"projects and users":                                  func(c *Config) { c.Tenants[0].Users = nil },
		"board 8: sim-node-1 has 8 boards":                    func(c *Config) { c.Workloads[0].Places[0].Boards = []int{8} },
		`places[0].node "x"`:                                  func(c *Config) { c.Workloads[0].Places[0].Node = "x" },
		"leaf 7: board 0 of sim-node-3 has 7":                 func(c *Config) { c.Workloads[4].Places[0].Leaves = []int{7} },
		"replica 1: board 0 has 1":                            func(c *Config) { c.Workloads[0].Places[0].Replica = 1 },
		"is taken by workloads[0] (pretrain)":                 func(c *Config) { c.Workloads[1].Places = c.Workloads[0].Places },
		"gang spans nodes":                                    func(c *Config) { c.Workloads[1].Places = append(c.Workloads[1].Places, c.Workloads[16].Places...) },
		"fill_percent 101":                                    func(c *Config) { c.Workloads[0].FillPercent = 101 },
		"cycle 192h0m0s":                                      func(c *Config) { c.Workloads[0].Cycle = 8 * day },
		"cycle 7h0m0s with 3 jobs: must divide the day":       func(c *Config) { c.Workloads[2].Cycle = 7 * time.Hour },
		`kind "coffee"`:                                       func(c *Config) { c.Workloads[0].Kind = "coffee" },
		`tenant "nobody"`:                                     func(c *Config) { c.Workloads[0].Tenant = "nobody" },
		"incidents[0].kind":                                   func(c *Config) { c.Incidents[0].Kind = "flood" },
		`incidents[0].tenant "nobody"`:                        func(c *Config) { c.Incidents[0].Tenant = "nobody" },
		"incidents[0].label is empty":                         func(c *Config) { c.Incidents[0].Label = "" },
		"saturday 5":                                          func(c *Config) { c.Incidents[0].Saturday = 5 },
		"last at most a week":                                 func(c *Config) { c.Incidents[0].Length = 8 * day },
		"time-sliced: an incident needs the leaf":             func(c *Config) { c.Incidents[1].Places = on("sim-node-3", 7) },
		`failures[0].node "x"`:                                func(c *Config) { c.Failures[0].Node = "x" },
		"failures[3].board 8":                                 func(c *Config) { c.Failures[3].Board = 8 },
		"failures[0].day 29":                                  func(c *Config) { c.Failures[0].Day = 29 },
		`failures[0].kind "flood" is not known`:               func(c *Config) { c.Failures[0].Kind = "flood" },
		"failures[5] (exporter_gap): at 5h10m30s for 20h0m0s": func(c *Config) { c.Failures[5].Length = 20 * time.Hour },
	} {
		c := DefaultConfig()
		spoil(&c)
		if _, err := New(c, Deps{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

// TestHoldsGoOnOverMidnight reads both sides of each midnight, which stand in
// different day plans: whoever holds a leaf to the end of one day holds it
// from the start of the next, and nobody else does.
func TestHoldsGoOnOverMidnight(t *testing.T) {
	s := demo(t)
	holds := func(at time.Time, open func(*wire.Hold) bool) map[string]string {
		out := map[string]string{}
		for _, b := range read(t, s, at, time.Minute) {
			for _, g := range b.Gpus {
				for _, h := range g.Holds {
					if open(h) {
						out[g.Uuid+"/"+h.Leaf+"/"+h.Owner.Uid+h.Owner.Job] = h.Owner.Namespace + h.Owner.Account
					}
				}
			}
		}
		return out
	}
	for day := 2; day <= 30; day++ {
		midnight := on2026(9, day, 0, 0)
		before := holds(midnight.Add(-time.Minute), func(h *wire.Hold) bool { return h.ToMs == nil })
		after := holds(midnight, func(h *wire.Hold) bool { return h.FromMs == nil })
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("holds over %s (-before +after):\n%s", midnight, diff)
		}
	}
}

// TestIncidentsMustNotMeet lets two rules claim the same GPUs at one time.
func TestIncidentsMustNotMeet(t *testing.T) {
	c := DefaultConfig()
	late := c.Incidents[0]
	late.At, late.Label = late.At+time.Hour, "late"
	c.Incidents = append(c.Incidents, late)
	want := `incidents "llm-training holds 8 idle GPUs over a weekend" and "late" both claim leaf gpu of`
	if _, err := New(c, Deps{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
}
