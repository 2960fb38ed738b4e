package sim

import (
	"fmt"
	"time"
)

const (
	hour   = time.Hour
	minute = time.Minute
	h100   = "NVIDIA H100 80GB HBM3"
	a100   = "NVIDIA A100-SXM4-80GB"
)

// DefaultConfig is the demo fleet: 4 nodes, 32 GPUs, about 80 leaves, six
// tenants, four incidents and eight failures a month. Its window is September
// 2026; set WindowFrom and WindowTo to simulate another time.
func DefaultConfig() Config {
	return Config{
		Seed:       1,
		Cluster:    "demo-sim",
		WindowFrom: time.Date(2026, time.September, 1, 0, 0, 0, 0, time.UTC),
		WindowTo:   time.Date(2026, time.October, 1, 0, 0, 0, 0, time.UTC),
		Models: []Model{
			{Name: h100, Slices: 7, IdleWatts: 80, QuietWatts: 65, MaxWatts: 690, MemoryMiB: 81559, SMClockMHz: 1980, MemClockMHz: 2619},
			{Name: a100, Slices: 7, IdleWatts: 80, QuietWatts: 58, MaxWatts: 398, MemoryMiB: 81920, SMClockMHz: 1410, MemClockMHz: 1593},
		},
		Nodes:     demoNodes(),
		Tenants:   demoTenants(),
		Workloads: demoWorkloads(),
		Incidents: demoIncidents(),
		Failures:  demoFailures(),
	}
}

// sevenths is the layout 7×1g.10gb.
func sevenths() []Instance {
	out := make([]Instance, 7)
	for i := range out {
		out[i] = Instance{Profile: "1g.10gb", Slices: 1, MemoryMiB: 9856}
	}
	return out
}

// mixed is 3g.40gb + 2g.20gb + 1g.10gb: one slice of seven is stranded.
func mixed() []Instance {
	return []Instance{
		{Profile: "3g.40gb", Slices: 3, MemoryMiB: 40192},
		{Profile: "2g.20gb", Slices: 2, MemoryMiB: 19968},
		{Profile: "1g.10gb", Slices: 1, MemoryMiB: 9856},
	}
}

func demoNodes() []Node {
	seven, mix := Board{MIG: true, Instances: sevenths()}, Board{MIG: true, Instances: mixed()}
	late := Board{MIG: true, Instances: sevenths(), InstancesFrom: 4*day + 10*hour + 17*minute + 23456*time.Millisecond}
	return []Node{
		{Name: "sim-node-1", Model: h100, Scheduler: Kubernetes, Boards: make([]Board, 8)},
		{Name: "sim-node-2", Model: h100, Scheduler: Kubernetes, Boards: make([]Board, 8)},
		{Name: "sim-node-3", Model: a100, Scheduler: Kubernetes, Boards: []Board{seven, seven, seven, seven, mix, mix, late, {Replicas: 4}}},
		{Name: "sim-node-4", Model: h100, Scheduler: Slurm, Boards: []Board{{}, {}, {}, {}, {}, {}, seven, seven}},
	}
}

func demoTenants() []Tenant {
	tenant := func(name, zone string, from, to time.Duration, projects ...string) Tenant {
		t := Tenant{Name: name, Zone: zone, WorkFrom: from, WorkTo: to, Projects: projects}
		for i := range 4 {
			t.Users = append(t.Users, fmt.Sprintf("%s-user%d", name, i+1))
		}
		return t
	}
	return []Tenant{
		tenant("ml-research", "America/New_York", 9*hour, 18*hour, "sparse-attention", "evals"),
		tenant("llm-training", "America/Los_Angeles", 9*hour, 19*hour, "pretraining", "alignment"),
		tenant("vision", "Europe/Berlin", 8*hour, 18*hour, "segmentation", "labelling"),
		tenant("inference", "Europe/London", 8*hour, 20*hour, "chat", "embeddings"),
		tenant("data-science", "Asia/Kolkata", 9*hour, 18*hour, "forecasting", "churn"),
		tenant("robotics", "Asia/Tokyo", 9*hour, 19*hour, "grasping", "navigation"),
	}
}

func on(node string, boards ...int) []Place { return []Place{{Node: node, Boards: boards}} }

func demoWorkloads() []Workload {
	leaves := func(board int, idx ...int) []Place {
		return []Place{{Node: "sim-node-3", Boards: []int{board}, Leaves: idx}}
	}
	lane := func(replica int) []Place {
		return []Place{{Node: "sim-node-3", Boards: []int{7}, Replica: replica}}
	}
	return []Workload{
		{Name: "pretrain", Kind: Training, Tenant: "llm-training", Places: on("sim-node-1", 0, 1, 2, 3, 4, 5, 6, 7), Gang: true, Cycle: 5 * day, FillPercent: 90},
		{Name: "ablation", Kind: Training, Tenant: "ml-research", Places: on("sim-node-2", 0, 1, 2, 3), Gang: true, Cycle: 3 * day, FillPercent: 84},
		{Name: "segment", Kind: Batch, Tenant: "vision", Places: on("sim-node-2", 4, 5), Cycle: hour, FillPercent: 85, Jobs: 3, WorkHours: true},
		{Name: "simulate", Kind: Batch, Tenant: "robotics", Places: on("sim-node-2", 6, 7), Cycle: hour, FillPercent: 85, Jobs: 4, WorkHours: true},
		{Name: "notebook", Kind: Notebook, Tenant: "data-science", Places: append(leaves(0), leaves(1)...), FillPercent: 80},
		{Name: "chat", Kind: Inference, Tenant: "inference", Places: leaves(2), Cycle: 7 * day, FillPercent: 100},
		{Name: "notebook", Kind: Notebook, Tenant: "ml-research", Project: "evals", Places: leaves(3, 0, 1, 2), FillPercent: 85},
		{Name: "score", Kind: Batch, Tenant: "inference", Project: "embeddings", Places: leaves(3, 3, 4, 5, 6), Cycle: 2 * hour, FillPercent: 55, Jobs: 5},
		{Name: "embed", Kind: Inference, Tenant: "inference", Project: "embeddings", Places: append(leaves(4, 0), leaves(5, 0)...), Cycle: 4 * day, FillPercent: 100},
		{Name: "features", Kind: Batch, Tenant: "ml-research", Places: append(leaves(4, 1), leaves(5, 1)...), Cycle: 6 * hour, FillPercent: 75, Jobs: 3},
		{Name: "notebook", Kind: Notebook, Tenant: "vision", Project: "labelling", Places: append(leaves(4, 2), leaves(5, 2)...), FillPercent: 75},
		{Name: "sweep", Kind: Batch, Tenant: "ml-research", Project: "evals", Places: leaves(6), Cycle: 3 * hour, FillPercent: 70, Jobs: 4},
		{Name: "rerank", Kind: Inference, Tenant: "inference", Places: lane(0), Cycle: 3 * day, FillPercent: 100},
		{Name: "whisper", Kind: Inference, Tenant: "ml-research", Places: lane(1), Cycle: 5 * day, FillPercent: 100},
		{Name: "notebook", Kind: Notebook, Tenant: "data-science", Project: "churn", Places: lane(2), FillPercent: 70},
		{Name: "etl", Kind: Batch, Tenant: "ml-research", Places: lane(3), Cycle: 4 * hour, FillPercent: 30, Jobs: 6},
		{Name: "finetune", Kind: Training, Tenant: "llm-training", Project: "alignment", Places: on("sim-node-4", 0, 1), Gang: true, Cycle: 2 * day, FillPercent: 82},
		{Name: "sweep", Kind: Training, Tenant: "ml-research", Places: on("sim-node-4", 2, 3), Cycle: 20 * hour, FillPercent: 75},
		{Name: "array", Kind: Batch, Tenant: "ml-research", Places: on("sim-node-4", 4, 5), Cycle: 6 * hour, FillPercent: 70, Jobs: 4},
		{Name: "serve", Kind: Inference, Tenant: "inference", Places: on("sim-node-4", 6), Cycle: 6 * day, FillPercent: 100},
		{Name: "policy", Kind: Batch, Tenant: "robotics", Places: on("sim-node-4", 7), Cycle: hour, FillPercent: 70, Jobs: 6, WorkHours: true},
	}
}

// demoIncidents lie on days of their own, away from the failures' effects on
// the same boards where a label would become unclear.
func demoIncidents() []IncidentRule {
	return []IncidentRule{
		{
			Kind: IdleAllocation, Tenant: "llm-training", Label: "llm-training holds 8 idle GPUs over a weekend",
			Saturday: 2, DayOffset: -1, At: 19 * hour, Length: 60 * hour, Places: on("sim-node-1", 0, 1, 2, 3, 4, 5, 6, 7),
		},
		{
			Kind: IdleAllocation, Tenant: "data-science", Label: "data-science forgets a notebook for three days",
			Saturday: 3, DayOffset: -4, At: 18*hour + 30*minute, Length: 72 * hour,
			Places: []Place{{Node: "sim-node-3", Boards: []int{2}, Leaves: []int{6}}},
		},
		{
			Kind: OffHoursSpike, Tenant: "robotics", Label: "robotics runs 12 GPUs on a Sunday at night",
			Saturday: 3, DayOffset: 1, At: 2 * hour, Length: 3 * hour,
			Places: append(on("sim-node-2", 2, 3, 4, 5, 6, 7), on("sim-node-4", 0, 1, 2, 3, 4, 5)...),
		},
		{
			Kind: OffHoursSpike, Tenant: "vision", Label: "vision runs 6 GPUs on a weekday at night",
			Saturday: 1, DayOffset: 4, At: 1 * hour, Length: 3 * hour, Places: on("sim-node-2", 2, 3, 4, 5, 6, 7),
		},
	}
}

func demoFailures() []Failure {
	at := func(h, m, s, ms time.Duration) time.Duration {
		return h*hour + m*minute + s*time.Second + ms*time.Millisecond
	}
	return []Failure{
		{Kind: AttributionFailure, Node: "sim-node-2", Day: 2, At: at(11, 20, 30, 0), Length: 6 * minute},
		{Kind: ExporterGap, Node: "sim-node-3", Day: 3, At: at(16, 33, 20, 0), Length: 20 * time.Second},
		{Kind: GPUUnhealthy, Node: "sim-node-2", Board: 1, Day: 5, At: at(14, 5, 12, 310), Length: at(2, 10, 0, 0), XID: 95},
		{Kind: GPULost, Node: "sim-node-1", Board: 3, Day: 6, At: at(3, 12, 7, 250), Length: at(5, 20, 1, 0), XID: 79},
		{Kind: NodeReboot, Node: "sim-node-4", Day: 23, At: at(22, 40, 11, 40), Length: at(0, 9, 37, 500)},
		{Kind: ExporterGap, Node: "sim-node-1", Day: 24, At: at(5, 10, 30, 0), Length: 7 * minute},
		{Kind: EnergyReset, Node: "sim-node-3", Board: 1, Day: 25, At: at(10, 0, 3, 700)},
		{Kind: AttributionFailure, Node: "sim-node-3", Day: 26, At: at(8, 0, 5, 0), Length: 25 * time.Second},
	}
}
