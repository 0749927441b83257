#!/bin/sh
# Files in and out: tar reads them from the input of one command and writes them to the output of
# another, so names, modes and times arrive as they were.
set -eu
tree=${HUTCH:-/run/hutch}
box=$(mktemp -d "$tree/files-XXXXXX")
work=$(mktemp -d)
trap 'rmdir "$box"; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
exec 3<>"$box/exec/new"

# run SCRIPT [INPUT-FILE]: its output, and its exit status.
run() {
	printf ' %s' "$1" >&3
	read -r n <&3
	cat "${2:-/dev/null}" > "$box/exec/$n/stdin"
	cat "$box/exec/$n/stdout"
	return "$(cat "$box/exec/$n/code")"
}

mkdir -p "$work/src/doc"
echo 'the quick brown fox' > "$work/src/doc/a.txt"
echo 'jumps over the lazy dog' > "$work/src/doc/b.txt"
ln -s doc/a.txt "$work/src/link"

tar -C "$work/src" -cf "$work/in.tar" .
run 'mkdir src && tar -xf - -C src' "$work/in.tar"

run 'cd src && mkdir out && wc -w doc/*.txt > out/words && cat link | tr a-z A-Z > out/upper'

# Nothing that comes out of a sandbox is trusted with a name: only what was asked for is unpacked,
# into a directory that is empty.
run 'tar -C src -cf - out' > "$work/out.tar"
mkdir "$work/result"
tar -C "$work/result" -xf "$work/out.tar" --no-same-owner out/words out/upper
cat "$work/result/out/upper" "$work/result/out/words"

# A single file needs no tar.
run 'cat > one' "$work/src/doc/a.txt"
run 'cat one'
