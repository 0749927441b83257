#!/bin/sh
# Following both streams of a command while it runs: each `cat` waits for what comes, and ends when
# the command has ended. `tail -f` does as well, but never ends by itself.
set -eu
tree=${HUTCH:-/run/hutch}
box=$(mktemp -d "$tree/follow-XXXXXX")
trap 'rmdir "$box"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

exec 3<>"$box/exec/new"
echo 'for i in 1 2 3; do echo "step $i"; sleep 0.1; echo "detail of $i" >&2; sleep 0.1; done; exit 5' >&3
read -r n <&3
exec 3>&-

sed -u 's/^/out: /' "$box/exec/$n/stdout" &
sed -u 's/^/err: /' "$box/exec/$n/stderr" &
wait
echo "exit code $(cat "$box/exec/$n/code")"
