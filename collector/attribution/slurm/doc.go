// Package slurm reads from Slurm who holds which GPU of this node, as an
// attribution.Reader.
//
// Data in, one of two:
//   - from: files. A directory that a prolog and an epilog keep: one file per
//     device, one job id (SLURM_JOB_ID) per line, an empty file or none: free.
//     A file's name is "<position>", "<position>.<GI>" (as dcgm-exporter's
//     hpc_job has it) or a UUID (GPU-…, MIG-…); names that begin with a dot are
//     ignored, but for ".prolog", which the prolog leaves there: without it a
//     directory is one that nobody writes, and an error. deploy/slurm has such a
//     pair. Holds are exact to a poll, and only root can write them: the mode to
//     prefer.
//   - from: scontrol. squeue says which jobs are on the node, scontrol which
//     GRES each has, every scontrol_every. Holds are exact to that, and a
//     Snapshot says when its answer was so.
//
// Data out: a holding per device and job; the owner is the job's own id (an
// element of an array has one), its user and its account.
//
// A position is a place in the node's list of gpu GRES: what SLURM_JOB_GPUS and
// IDX say. It is neither the minor of the device nor NVML's index. The list is
// in the order of the types in the node's Gres= of slurm.conf and, within a
// type, of the devices in gres.conf. `gres` names the devices one by one;
// `gres_conf` reads gres.conf, and asks scontrol for the order where the node
// has several types; without either a position is taken as the board's index,
// which is right only where the list is all whole boards in the order of their
// indices, as AutoDetect=nvml without MIG makes it.
//
// Invariants:
//   - An error means that nothing is known. What can't be understood (a name, a
//     line, a position beyond the list, shared GRES) is never left out.
//   - A job holds what Slurm keeps from others: running, suspended (it gets its
//     GPUs back), completing (until its epilog is done).
//   - from: scontrol: the jobs' positions are those that the node says are in
//     use, or it is an error; so jobs that the collector's user may not see
//     (PrivateData) don't make a GPU look free.
//   - Text that users choose (job name, account, comment) can't forge a job: the
//     fields of squeue are told apart by a nonce, and scontrol is read only
//     after what squeue said that the name and the account are.
//
// Jobs that have shares of a GPU (shard, mps) stand in files like others, since
// Slurm tells the prolog which board it is; several holders of a board are each
// charged a part (R12). from: scontrol refuses them by name: how many shares a
// board has isn't said there in one form.
//
// What can go wrong: Slurm doesn't answer (files: an error while a job is there
// whose user isn't known yet; scontrol: the last answer up to scontrol_max_age,
// then an error), a file that is written in place (its last line counts once it
// has its newline, or is the same in two polls), gres.conf with AutoDetect and
// files that aren't in order (an error that asks for `gres`), a line that no
// epilog took out. The jobs of files are looked up every minute: one that has
// ended, waits to run again, or is unknown to Slurm in two looks is dropped,
// counted and named in the log. It is back as soon as its file changes and Slurm
// says that it runs. An unknown one stays, because PrivateData may hide it, while
// the node has more GPUs in use than others account for.
package slurm
