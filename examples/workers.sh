#!/bin/bash
# A pool of workers, each with a sandbox of its own, that share a list of jobs.
#
#	examples/workers.sh [WORKERS] [JOBS]
#
# mktemp finds free names: for sandboxes, and for commands within one.
set -eu
tree=${HUTCH:-/run/hutch}
workers=${1:-4}
jobs=${2:-20}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'kill $(jobs -p); exit 130' INT TERM

# The list is a pipe: whoever is free takes the next line.
mkfifo "$dir/list"
exec 3<>"$dir/list"
for ((i = 1; i <= jobs; i++)); do echo "$i"; done >&3
for ((i = 1; i <= workers; i++)); do echo end; done >&3

worker() {
	local box job node
	box=$(mktemp -d "$tree/worker-XXXXXX")
	exec 9>"$box/hold" # it goes with this worker
	while read -r job <&3 && [ "$job" != end ]; do
		node=$(mktemp -d "$box/exec/j-XXXXXX")
		echo 'set timeout_s 60' >"$node/ctl"
		echo "set env.JOB $job" >"$node/ctl"
		echo 'factor $((JOB * 1001))' >"$node/cmd"
		if [ "$(cat "$node/code")" = 0 ]; then
			cat "$node/stdout"
		else
			echo "$job: $(cat "$node/status")"
		fi >"$dir/result-$job"
		rmdir "$node"
	done
}
for ((i = 1; i <= workers; i++)); do worker & done
wait

cat "$dir"/result-* | sort -n
