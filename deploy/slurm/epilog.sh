#!/bin/sh
# Epilog= of slurm.conf: takes this job, and no other, out of what prolog.sh
# wrote. It looks through all files, so that nothing stays when Slurm doesn't
# tell the epilog which GPUs the job had.
set -eu
umask 022
dir=${GPULEDGER_MAPPING_DIR:-/run/gpuledger/slurm}
[ -d "$dir" ] || exit 0

exec 9>"$dir/.lock"
flock 9
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
