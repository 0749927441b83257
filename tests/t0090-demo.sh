#!/bin/bash
# tools/demo: plays its session, leaves the tree mounted, and stops again.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq make gcc

demo=$HUTCH_TESTS/../tools/demo
# Its state directory is under /var/lib and must not be there afterwards, whatever happens.
state=/var/lib/hutch-demo${T//\//-}
at_end+=(stop_demo)
stop_demo() { [ ! -d "$state" ] || "$demo" --stop "$T" >/dev/null 2>&1; }

timeout -k 1 240 "$demo" "$T" >"$W/out" 2>&1 </dev/null
is 'it succeeds' $? 0
text=$(cat "$W/out")
note "$(tail -n 5 <<<"$text")"
like 'shows commands with a prompt' "$text" '\$ mkdir '"$T"'/box'
like 'and their real output' "$text" 'Linux box .*uid=0\(root\)'
like 'the upper case of what went in' "$text" 'HELLO FROM OUTSIDE'
like 'says how to stop' "$text" "tools/demo --stop $T"
ok 'leaves it mounted' mounted "$T"
box mine
is 'and usable' "$(out mine 'echo yes')" yes
text=$(timeout -k 1 60 "$demo" "$T" 2>&1 <&-)
is 'a second time: plays again on the same tree' "$? $(grep -c 'HELLO FROM' <<<"$text")" '0 1'
is 'what the user made is still there' "$(out mine 'echo yes')" yes
ok '--stop' timeout 30 "$demo" --stop "$T"
no 'it is not mounted any more' mounted "$T"
no 'the mount point that it made is gone' test -e "$T"
no 'its state directory too' test -e "$state"
no 'hutchd has ended' hutchd_pid
no '--stop when nothing runs' timeout 10 "$demo" --stop "$T"

mkdir "$W/full" && touch "$W/full/x"
like 'a mount point that is not empty' "$(timeout 60 "$demo" "$W/full" 2>&1; echo "status $?")" 'empty.*status 1'
like '--help' "$(timeout 10 "$demo" --help; echo "status $?")" 'MOUNTPOINT.*status 0'
like 'a wrong option' "$(timeout 10 "$demo" --wrong 2>&1; echo "status $?")" 'wrong.*status 2'
like 'a plain user' "$(cat "$demo" >"$W/demo"; chmod 755 "$W/demo"; timeout 10 setpriv --reuid=4321 --regid=4321 --clear-groups sh "$W/demo" 2>&1; echo "status $?")" 'root.*status 1'
like 'no /dev/fuse' "$(timeout 60 unshare --mount sh -c 'mount -t tmpfs x /dev && : > /dev/null && exec "$0" "$1"' "$demo" "$T" 2>&1 </dev/null; echo "status $?")" '/dev/fuse.*status 1'
