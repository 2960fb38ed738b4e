package sim

import (
	"fmt"
	"time"
)

// The demo fleet: 4 nodes, 32 GPUs, about 80 leaves, six tenants, four incidents
// and eight failures a month.

var (
	h100 = &model{
		name: "NVIDIA H100 80GB HBM3", slices: 7, idleWatts: 80, restWatts: 65, maxWatts: 690,
		memoryMiB: 81559, smClockMHz: 1980, memClockMHz: 2619,
	}
	a100 = &model{
		name: "NVIDIA A100-SXM4-80GB", slices: 7, idleWatts: 80, restWatts: 58, maxWatts: 398,
		memoryMiB: 81920, smClockMHz: 1410, memClockMHz: 1593,
	}
)

// sevenths is the layout 7×1g.10gb.
func sevenths() []instance {
	out := make([]instance, 7)
	for i := range out {
		out[i] = instance{profile: "1g.10gb", slices: 1, memoryMiB: 9856}
	}
	return out
}

// mixed is 3g.40gb + 2g.20gb + 1g.10gb: one slice of seven is stranded.
func mixed() []instance {
	return []instance{
		{profile: "3g.40gb", slices: 3, memoryMiB: 40192},
		{profile: "2g.20gb", slices: 2, memoryMiB: 19968},
		{profile: "1g.10gb", slices: 1, memoryMiB: 9856},
	}
}

func demoNodes() []node {
	seven, mix := layout{mig: true, instances: sevenths()}, layout{mig: true, instances: mixed()}
	late := layout{mig: true, instances: sevenths(), instancesFrom: 4*day + 10*hour + 17*minute + 23456*time.Millisecond}
	return []node{
		{name: "sim-node-1", model: h100, scheduler: kubernetes, layouts: make([]layout, 8)},
		{name: "sim-node-2", model: h100, scheduler: kubernetes, layouts: make([]layout, 8)},
		{
			name: "sim-node-3", model: a100, scheduler: kubernetes,
			layouts: []layout{seven, seven, seven, seven, mix, mix, late, {replicas: 4}},
		},
		{name: "sim-node-4", model: h100, scheduler: slurm, layouts: []layout{{}, {}, {}, {}, {}, {}, seven, seven}},
	}
}

func demoTenants() []*tenant {
	named := func(name, zone string, from, to time.Duration, projects ...string) *tenant {
		t := &tenant{name: name, zoneName: zone, workFrom: from, workTo: to, projects: projects}
		for i := range 4 {
			t.users = append(t.users, fmt.Sprintf("%s-user%d", name, i+1))
		}
		return t
	}
	return []*tenant{
		named("ml-research", "America/New_York", 9*hour, 18*hour, "sparse-attention", "evals"),
		named("llm-training", "America/Los_Angeles", 9*hour, 19*hour, "pretraining", "alignment"),
		named("vision", "Europe/Berlin", 8*hour, 18*hour, "segmentation", "labelling"),
		named("inference", "Europe/London", 8*hour, 20*hour, "chat", "embeddings"),
		named("data-science", "Asia/Kolkata", 9*hour, 18*hour, "forecasting", "churn"),
		named("robotics", "Asia/Tokyo", 9*hour, 19*hour, "grasping", "navigation"),
	}
}

func on(node string, boards ...int) []place { return []place{{node: node, boards: boards}} }

func demoWorkloads() []workload {
	leaves := func(board int, idx ...int) []place {
		return []place{{node: "sim-node-3", boards: []int{board}, leaves: idx}}
	}
	lane := func(replica int) []place {
		return []place{{node: "sim-node-3", boards: []int{7}, replica: replica}}
	}
	return []workload{
		// name, kind, tenant, project (empty: its first), gang, cycle, fill %, jobs, only in working hours, places
		{"pretrain", training, "llm-training", "", true, 5 * day, 90, 0, false, on("sim-node-1", 0, 1, 2, 3, 4, 5, 6, 7)},
		{"ablation", training, "ml-research", "", true, 3 * day, 84, 0, false, on("sim-node-2", 0, 1, 2, 3)},
		{"segment", batch, "vision", "", false, hour, 85, 3, true, on("sim-node-2", 4, 5)},
		{"simulate", batch, "robotics", "", false, hour, 85, 4, true, on("sim-node-2", 6, 7)},
		{"notebook", notebook, "data-science", "", false, 0, 80, 0, false, append(leaves(0), leaves(1)...)},
		{"chat", inference, "inference", "", false, 7 * day, 100, 0, false, leaves(2)},
		{"notebook", notebook, "ml-research", "evals", false, 0, 85, 0, false, leaves(3, 0, 1, 2)},
		{"score", batch, "inference", "embeddings", false, 2 * hour, 55, 5, false, leaves(3, 3, 4, 5, 6)},
		{"embed", inference, "inference", "embeddings", false, 4 * day, 100, 0, false, append(leaves(4, 0), leaves(5, 0)...)},
		{"features", batch, "ml-research", "", false, 6 * hour, 75, 3, false, append(leaves(4, 1), leaves(5, 1)...)},
		{"notebook", notebook, "vision", "labelling", false, 0, 75, 0, false, append(leaves(4, 2), leaves(5, 2)...)},
		{"sweep", batch, "ml-research", "evals", false, 3 * hour, 70, 4, false, leaves(6)},
		{"rerank", inference, "inference", "", false, 3 * day, 100, 0, false, lane(0)},
		{"whisper", inference, "ml-research", "", false, 5 * day, 100, 0, false, lane(1)},
		{"notebook", notebook, "data-science", "churn", false, 0, 70, 0, false, lane(2)},
		{"etl", batch, "ml-research", "", false, 4 * hour, 30, 6, false, lane(3)},
		{"finetune", training, "llm-training", "alignment", true, 2 * day, 82, 0, false, on("sim-node-4", 0, 1)},
		{"sweep", training, "ml-research", "", false, 20 * hour, 75, 0, false, on("sim-node-4", 2, 3)},
		{"array", batch, "ml-research", "", false, 6 * hour, 70, 4, false, on("sim-node-4", 4, 5)},
		{"serve", inference, "inference", "", false, 6 * day, 100, 0, false, on("sim-node-4", 6)},
		{"policy", batch, "robotics", "", false, hour, 70, 6, true, on("sim-node-4", 7)},
	}
}

// demoIncidents lie on days of their own, away from the failures' effects on
// the same boards where a label would become unclear.
func demoIncidents() []incidentRule {
	return []incidentRule{
		{
			kind: IdleAllocation, tenant: "llm-training", label: "llm-training holds 8 idle GPUs over a weekend",
			saturday: 2, dayOffset: -1, at: 19 * hour, length: 60 * hour, places: on("sim-node-1", 0, 1, 2, 3, 4, 5, 6, 7),
		},
		{
			kind: IdleAllocation, tenant: "data-science", label: "data-science forgets a notebook for three days",
			saturday: 3, dayOffset: -4, at: 18*hour + 30*minute, length: 72 * hour,
			places: []place{{node: "sim-node-3", boards: []int{2}, leaves: []int{6}}},
		},
		{
			kind: OffHoursSpike, tenant: "robotics", label: "robotics runs 12 GPUs on a Sunday at night",
			saturday: 3, dayOffset: 1, at: 2 * hour, length: 3 * hour,
			places: append(on("sim-node-2", 2, 3, 4, 5, 6, 7), on("sim-node-4", 0, 1, 2, 3, 4, 5)...),
		},
		{
			kind: OffHoursSpike, tenant: "vision", label: "vision runs 6 GPUs on a weekday at night",
			saturday: 1, dayOffset: 4, at: 1 * hour, length: 3 * hour, places: on("sim-node-2", 2, 3, 4, 5, 6, 7),
		},
	}
}

func demoFailures() []failure {
	at := func(h, m, s, ms time.Duration) time.Duration {
		return h*hour + m*minute + s*time.Second + ms*time.Millisecond
	}
	return []failure{
		{kind: attributionFailure, node: "sim-node-2", day: 2, at: at(11, 20, 30, 0), length: 6 * minute},
		{kind: exporterGap, node: "sim-node-3", day: 3, at: at(16, 33, 20, 0), length: 20 * time.Second},
		{kind: gpuUnhealthy, node: "sim-node-2", board: 1, day: 5, at: at(14, 5, 12, 310), length: at(2, 10, 0, 0), xid: 95},
		{kind: gpuLost, node: "sim-node-1", board: 3, day: 6, at: at(3, 12, 7, 250), length: at(5, 20, 1, 0), xid: 79},
		{kind: nodeReboot, node: "sim-node-4", day: 23, at: at(22, 40, 11, 40), length: at(0, 9, 37, 500)},
		{kind: exporterGap, node: "sim-node-1", day: 24, at: at(5, 10, 30, 0), length: 7 * minute},
		{kind: energyReset, node: "sim-node-3", board: 1, day: 25, at: at(10, 0, 3, 700)},
		{kind: attributionFailure, node: "sim-node-3", day: 26, at: at(8, 0, 5, 0), length: 25 * time.Second},
	}
}
