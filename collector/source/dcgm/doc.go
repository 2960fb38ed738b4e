// Package dcgm is a source that reads the GPUs of its own node from NVIDIA's DCGM 4; package collector/source/local
// makes batches of the readings. go-dcgm connects, lists and watches; the values of every slot are read through a C
// shim (shim.c), which packs values of 4 KiB each into records of 32 bytes in reused memory.
//
// Invariants:
//   - A value is valid for its slot, or absent: DCGM's status is 0, it is not blank, and its time lies in the slot or
//     at most one interval before it. Absent values are counted by reason.
//   - Activity (fields 1002, 1001) is the mean of the samples whose time lies in the slot; the latest value would
//     only cover the last interval.
//   - XIDs are read from history, one sample per event, at the level where DCGM stores them: GPU, GPU instance or
//     compute instance. Those from before watching began are ignored.
//   - DCGM reuses the ids of instances. An instance is identified by its GPU's UUID, its NVML ids, profile, slices
//     and MIG UUID; a value from before it was first seen under its id belongs to another one. When the list of GPUs
//     and instances changes, groups and watches are created again.
//   - A GPU that DCGM lists but no longer supports is lost. While the driver is unloaded the enumeration is partial:
//     nothing is known, and nothing is lost.
//   - Every C function is looked up before it is called: go-dcgm binds lazily, and a missing function would end the
//     process.
//
// Errors:
//   - The library is missing or old, or no host engine runs: an error that describes what to do, and another attempt
//     at each reading, at most 8 s apart. When the host engine restarts, groups and watches are created again.
//   - Profiling is refused (another profiler, no module, no permission): its fields are absent for that model, the
//     reason is logged once, and it is tried again every minute.
//   - A call doesn't return. Connecting is bounded by 5 s on the shim's connection; go-dcgm's own connection, which
//     follows, and all other calls are bounded only by DCGM and can't be cancelled. So they run in a goroutine for
//     which Read waits up to four fifths of a slot; if it is still running, the next Read waits for it, and there is
//     never a second one.
//   - XIDs are missed while no host engine is connected, if no reading takes place for longer than Config.Keep, or if
//     their instance is destroyed in the same slot.
//
// The host engine must be the node's own: its times are compared with this process's clock. A process has one
// connection, since go-dcgm has only one. As a client of nv-hostengine the collector needs no privileges; an embedded
// host engine needs root for MIG, and before Hopper for profiling.
package dcgm
