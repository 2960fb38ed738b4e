// Package local makes one batch per slot of readings of a node's own GPUs, by DCGM or NVML.
//
// Data in: Look, about once a second, with each GPU's instances; at the slot's end a Reading with the values. Data
// out: a wire.Batch of facts, and a state file that keeps counters and health flags across restarts.
//
// Invariants:
//   - The leaves are the compute instances of a GPU instance that has any, else the GPU instance, else the whole GPU.
//     A leaf exists from the look that first reported it to the first that didn't; before and after a reconfiguration
//     the slices of a GPU are counted once.
//   - An instance that was created again is a new one, even under the same ids, if its profile or MIG UUID differ.
//   - Power is the slope of the energy counter, else field 155. If the counter decreased, the driver was reloaded or
//     the GPU reset, and health flags are cleared, as they are by a reboot of the machine (R9).
//   - A value that field.Check refuses is absent and counted.
//   - Slices come from the device, else from the configured or built-in model.
//
// Errors: a MIG GPU whose slices are unknown is left out and named in the error, and the enumeration is partial, so
// that its time is unobserved, not wrong. A GPU that is reported as lost is listed as it was last seen.
package local
