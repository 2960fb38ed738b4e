#!/usr/bin/env sh
# Prints the first Python 3.12 that really runs (a version manager's shim may
# refuse): $PYTHON312, one on PATH, pyenv's.
for python in "${PYTHON312:-}" "$(command -v python3.12)" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python3.12; do
	if [ -n "$python" ] && "$python" -c 'import sys, venv; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then
		echo "$python"
		exit 0
	fi
done
exit 1
