#!/bin/sh
# Prolog= of slurm.conf (with PrologFlags=Alloc): writes down, for gpuledger,
# that this job has the GPUs of SLURM_JOB_GPUS, by their positions in the node's
# gres list. One file per position, one job id per line.
#
# It fails rather than let a job run whose GPUs look free; Slurm then drains the
# node. The directory is on a tmpfs, so that a reboot clears it. The file .prolog
# in it says that a prolog writes here: without it gpuledger takes the directory
# for one that nobody keeps, not for a free node. Run it also as ExecStartPre= of
# slurmd, without a job, or the node is unknown until its first job.
set -eu
umask 022
dir=${GPULEDGER_MAPPING_DIR:-/run/gpuledger/slurm}
mkdir -p "$dir"
: >>"$dir/.prolog"
[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0

exec 9>"$dir/.lock"
flock 9
IFS=,
for position in $SLURM_JOB_GPUS; do
	file=$dir/$position
	new=$dir/.new.$position
	: >"$new"
	if [ -f "$file" ]; then
		grep -vx "$SLURM_JOB_ID" "$file" >"$new" || true
	fi
	echo "$SLURM_JOB_ID" >>"$new"
	mv -f "$new" "$file" # in one step: no reader sees half a file
done
