#!/bin/sh
# Puts ClickHouse's library into a folder: fetch.sh DEST
# Does nothing when the right file is there; else installs the pinned package
# in a temporary copy, checks its sum and moves the file into place at once.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dest=${1:?usage: fetch.sh DEST}

case "$(uname -s)-$(uname -m)" in
Linux-x86_64) ;;
*)
	echo "fetch.sh: the embedded engine is for Linux on x86-64, this is $(uname -s) on $(uname -m)" >&2
	exit 1
	;;
esac

right() {
	[ -f "$1/libchdb.so" ] && (cd "$1" && sha256sum --check --status "$here/SHA256SUMS")
}

mkdir -p "$dest"
if right "$dest"; then
	exit 0
fi

# In DEST, so that the last step is a rename within one file system.
work=$(mktemp -d "$dest/.fetch-XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
cp "$here/package.json" "$here/package-lock.json" "$work"
(cd "$work" && npm ci --ignore-scripts --no-audit --no-fund)

unpacked=$work/node_modules/@chdb/lib-linux-x64-gnu
if ! right "$unpacked"; then
	echo "fetch.sh: libchdb.so is not what SHA256SUMS says:" >&2
	(cd "$unpacked" && sha256sum libchdb.so) >&2
	exit 1
fi
mv "$unpacked/libchdb.so" "$dest/libchdb.so"
