#!/bin/bash
# hutchd under a limit on the size of its files (`ulimit -f`, LimitFSIZE= of systemd): a command that
# writes more than that loses what is over it, and nobody else anything.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq

hard=$(ulimit -H -f)
ulimit -S -f 4096 # KiB
start_hutchd
ulimit -S -f "$hard"
box b

# over WHAT COMMAND: 4 MiB are kept, to the byte, however they get to the disk.
over() {
	run b "$2; echo done >&2"
	is "$1: it ends" "$C $(status_of b "$N") $(timeout 5 cat "$X/stderr")" '0 exited 0 done'
	is "$1: what was kept" "$(res stdout_bytes) $(res truncated)" "$((4096 * 1024)) true"
	is "$1: it is there" "$(timeout 10 wc -c <"$X/stdout")" $((4096 * 1024))
}
over 'more than the limit, in a flood' 'head -c 20000000 /dev/zero'
over 'piece by piece' 'for i in $(seq 110); do head -c 40000 /dev/zero; sleep 0.005; done'

run b 'echo more'
is 'the next one' "$C $(timeout 5 cat "$X/stdout")" '0 more'

stop_hutchd
