// Package dcgm is a source that reads the GPUs of its own node from NVIDIA's
// DCGM 4: a slot goes in, one batch of facts comes out, by way of
// collector/source/GPU. go-dcgm connects, lists and watches; what is read in
// every slot goes through a shim of our own (shim.c), which packs values of 4 KiB
// each into records of 32 bytes in memory that is used again.
//
// Invariants:
//   - A value is one of its slot or absent: DCGM's status is 0, it is no blank,
//     and its time lies in the slot or at most one interval before it. What is
//     absent is counted by reason.
//   - Activity (fields 1002, 1001) is the mean of the samples whose time lies in
//     the slot; the latest value would stand for the last interval alone.
//   - XIDs are read from history, one sample per event, at the level where DCGM
//     stores them: GPU, GPU instance or compute instance. Those from before
//     watching began are old news.
//   - DCGM uses the ids of instances again. An instance is its GPU's UUID, its
//     NVML ids, profile, slices and MIG UUID; a value from before it was first
//     seen under its id is another one's. Any change of the list of GPUs and
//     instances makes groups and watches anew.
//   - A GPU that DCGM lists and can't support any more is lost. While the driver
//     is away the enumeration is partial: nothing is known, and nothing is lost.
//   - Every C function is looked up before it is called by anybody: go-dcgm binds
//     late, and a missing one would end the process.
//
// What can go wrong:
//   - No library, an old one, no host engine: an error that names what to do, and
//     another attempt at each reading, at most 8 s apart. A host engine that went
//     takes its groups and watches along; all are made anew.
//   - Profiling is refused (another profiler, no module, no right): its fields
//     are absent for that model, the reason is logged once, and it is tried again
//     every minute.
//   - A call that doesn't return. Connecting is bounded by 5 s on the shim's
//     connection; go-dcgm's own follows it and is bounded by DCGM alone, as is
//     every other call, and none can be broken off. So they run in a goroutine
//     that Read waits for up to four fifths of a slot; one that still runs is
//     waited for by the next Read, and there is never a second one.
//   - XIDs while no host engine is connected, for longer than Config.Keep without
//     a reading, or of an instance that is taken away in the same slot: not seen.
//
// The host engine is the node's own: its times are compared with this process's.
// A process has one connection, since go-dcgm has one. As a client of
// nv-hostengine the collector needs no privileges; an embedded host engine needs
// root for MIG, and before Hopper for profiling.
package dcgm
