// Package slurm reads from Slurm who holds which GPU of this node, as an attribution.Reader.
//
// Data in, one of two:
//   - from: files. A directory that a prolog and an epilog maintain: one file per device, one job id (SLURM_JOB_ID)
//     per line; an empty or missing file means free. A file's name is "<position>", "<position>.<GI>" (as in
//     dcgm-exporter's hpc_job) or a UUID (GPU-…, MIG-…); names that begin with a dot are ignored, except ".prolog",
//     which the prolog creates: a directory without it isn't written by a prolog, and is an error. deploy/slurm has
//     such a pair. The precision of holds is one poll, and only root can write them: prefer this mode.
//   - from: scontrol. squeue lists the jobs on the node, scontrol the GRES of each, every scontrol_every, which is
//     the precision of holds. A Snapshot has the time of its answer.
//
// Data out: a holding per device and job; the owner is the job's own id (an element of an array has one), its user
// and its account.
//
// A position is an index into the node's list of gpu GRES: the numbers in SLURM_JOB_GPUS and IDX. It is neither the
// device's minor nor NVML's index. The list is ordered by the types in the node's Gres= of slurm.conf and, within a
// type, by the devices in gres.conf. `gres` lists the devices one by one; `gres_conf` reads gres.conf, and queries
// scontrol for the order if the node has several types; without either a position is taken for the board's index,
// which is right only if the list contains whole boards only, in the order of their indices, as with AutoDetect=nvml
// without MIG.
//
// Invariants:
//   - An error means that holdings are unknown. Anything that can't be parsed (a name, a line, a position beyond the
//     list, shared GRES) is an error, never ignored.
//   - A job holds what Slurm reserves for it: while it is running, suspended (it gets its GPUs back), or completing
//     (until its epilog is done).
//   - from: scontrol: it is an error if the jobs' positions differ from those in use on the node; so jobs that the
//     collector's user may not see (PrivateData) don't make a GPU seem free.
//   - Text that users choose (job name, account, comment) can't forge a job: the fields of squeue are separated by a
//     nonce, and scontrol's record is parsed after skipping the name and account that squeue reported.
//
// Jobs that have shares of a GPU (shard, mps) are in files like others, since Slurm passes their board to the prolog;
// several holders of a board are each charged a part (R12). from: scontrol refuses them by name: the number of a
// board's shares isn't reported in a uniform way.
//
// Errors: Slurm doesn't answer (files: an error while a job's user is unknown; scontrol: the last answer is used up
// to scontrol_max_age, then an error); a file is written in place (its last line counts once it ends with a newline,
// or is the same in two polls); gres.conf has AutoDetect and files that aren't in order (an error that asks for
// `gres`); an epilog didn't remove a line. The jobs of files are queried every minute: one that has ended, waits to
// run again, or is unknown to Slurm in two queries is dropped, counted and logged. It holds again as soon as its file
// changes and Slurm reports it as running. An unknown job, which PrivateData may hide, isn't dropped while the node
// has more GPUs in use than the other jobs have.
package slurm
