// Package nvml reads a node's GPUs from the driver's own library, where there is
// no DCGM: libnvidia-ml.so.1, through go-nvml.
//
// Data in: once a slot every value, about once a second the MIG instances, and
// XIDs as they happen, from a goroutine of its own. Data out: GPU.Readings under
// DCGM's field ids and in DCGM's units, which a GPU.Builder makes batches of.
//
// Invariants:
//   - GPUs are known by UUID: indices shift when a GPU is lost.
//   - Activity is GPM's (Hopper and newer): the mean between two samples, one per
//     slot and GPU or GPU instance. A first sample, one after less than 100 ms
//     and one after more than 1.5 slots give nothing, and an instance that was
//     made again begins anew. GPM samples GPU instances: a compute instance has
//     its GPU instance's values where it is all of it; parts of one have none,
//     since nobody can say whose activity it was.
//   - What a driver or a GPU doesn't have is absent and counted by reason, never
//     zero. A function that the library lacks is never called: that would end
//     the process.
//   - The library is loaded once and stays: calls are bound to it for good.
//
// What can go wrong: no library or driver, or another one after a reload, is an
// error of Read, and the next Read begins anew; a GPU that fell off the bus is
// listed as lost; a GPU whose instances can't be listed is left out, and the
// enumeration is partial. A call that hangs in the driver costs no more than its
// own Read: the next ones say so until it returns. Without root, compute
// instances' XIDs and GPU instances without compute instances stay unseen, and
// the log says so once.
package nvml
