#!/bin/sh
# Epilog= of slurm.conf: takes this job, and no other, out of what prolog.sh
# wrote. It looks through all files, so that nothing stays when Slurm doesn't
# tell the epilog which GPUs the job had.
set -eu
umask 022
dir=${GPUTALLY_MAPPING_DIR:-/run/gputally/slurm}
[ -d "$dir" ] || exit 0

case ${SLURM_JOB_ID:-} in
'' | *[!0-9]*)
	echo "gputally epilog: SLURM_JOB_ID '${SLURM_JOB_ID:-}' is not a number" >&2
	exit 1
	;;
esac

# Whoever can open a file can hold its lock, so only root can open this one.
(umask 077 && : >>"$dir/.lock" && chmod 600 "$dir/.lock")
exec 9<>"$dir/.lock"
flock -w 10 9 || {
	echo "gputally epilog: $dir/.lock was held for 10 s" >&2
	exit 1
}
for file in "$dir"/*; do
	[ -f "$file" ] || continue
	grep -qx "$SLURM_JOB_ID" "$file" || continue
	new=$dir/.new.${file##*/}
	if grep -vx "$SLURM_JOB_ID" "$file" >"$new"; then
		mv -f "$new" "$file"
	else
		rm -f "$new" "$file" # it was the last
	fi
done
