#!/bin/sh
# Prolog= of slurm.conf (with PrologFlags=Alloc): writes down, for gputally,
# that this job has the GPUs of SLURM_JOB_GPUS, by their positions in the node's
# gres list. One file per position, one job id per line.
#
# It fails rather than let a job run whose GPUs look free; Slurm then drains the
# node. The directory is on a tmpfs, so that a reboot clears it. The file .prolog
# in it says that a prolog writes here: without it gputally takes the directory
# for one that nobody keeps, not for a free node. Run it also as ExecStartPre= of
# slurmd, without a job, or the node is unknown until its first job.
set -euf
umask 022
dir=${GPUTALLY_MAPPING_DIR:-/run/gputally/slurm}
mkdir -p "$dir"
: >>"$dir/.prolog"
[ -n "${SLURM_JOB_GPUS:-}" ] || exit 0

case ${SLURM_JOB_ID:-} in
'' | *[!0-9]*)
	echo "gputally prolog: SLURM_JOB_ID '${SLURM_JOB_ID:-}' is not a number" >&2
	exit 1
	;;
esac

# Whoever can open a file can hold its lock, so only root can open this one.
(umask 077 && : >>"$dir/.lock" && chmod 600 "$dir/.lock")
exec 9<>"$dir/.lock"
flock -w 10 9 || {
	echo "gputally prolog: $dir/.lock was held for 10 s" >&2
	exit 1
}
IFS=,
for position in $SLURM_JOB_GPUS; do
	case $position in
	'' | *[!0-9]*)
		echo "gputally prolog: position '$position' of SLURM_JOB_GPUS is not a number" >&2
		exit 1
		;;
	esac
	file=$dir/$position
	new=$dir/.new.$position
	: >"$new"
	if [ -f "$file" ]; then
		grep -vx "$SLURM_JOB_ID" "$file" >"$new" || true
	fi
	echo "$SLURM_JOB_ID" >>"$new"
	mv -f "$new" "$file" # in one step: no reader sees half a file
done
