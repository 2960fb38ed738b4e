// Package static reads from a file who has which GPU, as an attribution.Reader: for machines that people or teams
// share by agreement.
//
// Data in: a YAML file, such as
//
//	owners:
//	  - {gpu: GPU-5c1e…, tenant: vision, project: training}
//	  - {index: 1, user: alice, account: bio, from: 2026-11-01T00:00:00Z, to: 2026-12-01T00:00:00Z}
//	  - {minor: 2, gi: 1, tenant: notebooks}
//	  - {mig: MIG-77aa…, tenant: notebooks}
//
// Each entry names one device (gpu, index, minor or mig; gi and ci for a part of a board), at least one fact about
// its owner, and optionally from when (inclusive) to when (exclusive). If several entries name one device, it is
// shared. Data out: a holding for each entry that is valid now.
//
// Invariants: the file is read again when it changes (time, size, inode). An older version is never used instead of a
// newer one that is invalid: attribution fails until the file is valid. `owners: []` means that there are no owners;
// a file without the key is an error.
//
// Errors: the file is missing, has an unknown key or a wrong value (with file and line), or changes while it is read
// (the next poll reads it again; replace it by a rename).
package static
