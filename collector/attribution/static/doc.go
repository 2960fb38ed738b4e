// Package static reads from a file who has which GPU, as an attribution.Reader:
// for machines that people or teams share out by agreement.
//
// Data in: a YAML file, such as
//
//	owners:
//	  - {gpu: GPU-5c1e…, tenant: vision, project: training}
//	  - {index: 1, user: alice, account: bio, from: 2026-11-01T00:00:00Z, to: 2026-12-01T00:00:00Z}
//	  - {minor: 2, gi: 1, tenant: notebooks}
//	  - {mig: MIG-77aa…, tenant: notebooks}
//
// Each entry names one device (gpu, index, minor or mig; gi and ci a part of a
// board), at least one fact about its owner, and maybe from when (inclusive) to
// when (exclusive). Several entries may name one device: then it is shared.
// Data out: a holding for each entry whose time it is.
//
// Invariants: the file is read again whenever it is another (time, size, inode);
// what was read before is never given in place of a newer version with a fault:
// attribution then fails until the file is right. `owners: []` says that nobody
// has anything; a file without the key says nothing and is an error.
//
// What can go wrong: the file is away, has an unknown key or a wrong value (file
// and line are named), or changes while it is read (an error, and read again by
// the next poll; replace it by a rename).
package static
