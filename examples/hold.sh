#!/bin/sh
# Nothing survives the script, however it ends: the sandbox is held by an open handle, and the
# kernel closes that also for a script that is killed with -9 and can run no trap.
#
#	examples/hold.sh [SECONDS]
set -eu
tree=${HUTCH:-/run/hutch}
box=$(mktemp -d "$tree/hold-XXXXXX")
exec 9>"$box/hold"

echo "setsid sleep 1000 & setsid sleep 1000 & echo two daemons run" > "$box/exec/new"
head -n 1 "$box/exec/last/stdout"
echo "in ${box##*/}"

# What it starts inherits the handle, as any other. 9>&- is for what is to outlive the script.
sleep "${1:-0}" 9>&-

# A command can be held as well: it is killed at the end, and its result stays.
exec 8>"$box/exec/last/hold"
exec 8>&-
