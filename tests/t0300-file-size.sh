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

run b 'head -c 20000000 /dev/zero; echo done >&2'
is 'more than the limit: it ends' "$C $(status_of b "$N") $(timeout 5 cat "$X/stderr")" '0 exited 0 done'
is 'more than the limit: what was kept' "$(res stdout_bytes) $(res truncated)" "$((4096 * 1024)) true"
is 'more than the limit: it is there' "$(timeout 10 wc -c <"$X/stdout")" $((4096 * 1024))
run b 'echo more'
is 'the next one' "$C $(timeout 5 cat "$X/stdout")" '0 more'

stop_hutchd
