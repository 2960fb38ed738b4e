// Package local turns readings of a node's own GPUs, by DCGM or NVML, into one
// batch per slot.
//
// Data in: Look says, about once a second, which instances each GPU has; a
// Reading at the slot's end has the values. Data out: a wire.Batch of facts, and
// a state file that carries counters and health flags over restarts.
//
// Invariants:
//   - A leaf is the compute instances of a GPU instance that has any, else the
//     GPU instance, else the whole GPU. It exists from the look that saw it
//     first to the look that didn't any more; on both sides of a reconfiguration
//     the slices of a GPU are counted once.
//   - An instance that was made again is another one, also under the same ids,
//     where its profile or MIG UUID differ.
//   - Power is the energy counter's slope, else field 155. A counter that went
//     down was reset: the driver was reloaded or the GPU reset, and health
//     flags are cleared with it, as they are by a reboot of the machine (R9).
//   - A value that field.Check doesn't believe is absent and counted.
//   - Slices come from the device, else from the configured or built-in model.
//
// What can go wrong: a MIG GPU whose slices nobody knows is left out and named
// in the error, and the enumeration is partial, so that its time is unobserved
// and not wrong. A GPU that answers "lost" is listed as it was last seen.
package local
