// Package nvml reads a node's GPUs from the driver's own library, libnvidia-ml.so.1, through go-nvml, if DCGM is not
// available.
//
// Data in: all values once per slot, the MIG instances about once a second, and XIDs as they happen, from a separate
// goroutine. Data out: local.Readings with DCGM's field ids and units, of which a local.Builder makes batches.
//
// Invariants:
//   - GPUs are identified by UUID: indices shift when a GPU is lost.
//   - Activity is GPM's (Hopper and newer): the mean between two samples, one per slot and GPU or GPU instance. A
//     first sample, one after less than 100 ms and one after more than 1.5 slots have no mean, and an instance that
//     was created again starts with a first sample. GPM samples GPU instances: a compute instance has its GPU
//     instance's values if it is all of it; parts of one have none, since their shares of the activity are unknown.
//   - A value that a driver or a GPU doesn't support is absent and counted by reason, never zero. A function that the
//     library lacks is never called: that would end the process.
//   - The library is loaded once and never unloaded: calls stay bound to it.
//
// Errors: if the library or driver is missing, or was replaced by a reload, Read fails and the next Read initialises
// it again. A GPU that fell off the bus is listed as lost. A GPU whose instances can't be listed is left out, and the
// enumeration is partial. A call that hangs in the driver blocks only its own Read: the next ones return an error
// until it returns. Without root, XIDs of compute instances and GPU instances without compute instances are not
// visible, which is logged once.
package nvml
