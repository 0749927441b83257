#!/bin/bash
# How many finished nodes stay, which go, and which never: kept by number, by id, by what is open or lives.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
box b
E=$T/b/exec
nodes() { ls "$E" | grep -v '^\(new\|last\|keep\)$' | sort -V | tr '\n' ' '; }
after() { wait_for 5 eval "[ \"\$(nodes)\" = '$1' ]"; nodes; }
fill() { for ((i = 0; i < $1; i++)); do run b 'true'; done; }

is 'it begins with' "$(cat "$E/keep")" 1000
echo 3 >"$E/keep"
fill 6
is 'the oldest go' "$(after '4 5 6 ')" '4 5 6 '
is 'last is among them' "$(readlink "$E/last")" 6

# Oldest means finished first, not started first.
slow=$(node b 'while ! test -e /tmp/end; do sleep 0.05; done')
fill 3
is 'one that runs is not counted' "$(after '7 8 9 10 ')" '7 8 9 10 '
run b 'touch /tmp/end'
timeout 5 cat "$E/$slow/code" >/dev/null
is 'it has finished last' "$(after '7 10 11 ')" '7 10 11 '

# Never one that is open or has live processes.
run b 'echo open'
exec 5<"$X/stdout" 6<"$E/11/status"
open=$N
left=$(node b 'sleep 7301 >/dev/null 2>&1 & echo left')
timeout 5 cat "$E/$left/code" >/dev/null
fill 5
sleep 0.3
is 'open ones stay, and one with a process' "$(ls -d "$E/11" "$E/$open" "$E/$left" 2>/dev/null | wc -l)" 3
is 'they can be read' "$(head -n 1 <&5) $(timeout 5 cat "$E/$left/stdout")" 'open left'
exec 5<&- 6<&-
fill 3
ok 'closed, they go' wait_for 5 eval "! ls -d $E/11 && ! ls -d $E/$open"
ok 'the one with a process does not' test -d "$E/$left"
echo kill >"$E/$left/ctl"
wait_for 5 eval '! pgrep -f "^sleep 7301$"'
ok 'until it has ended' wait_for 10 eval "run b true; ! test -d $E/$left"
sleep 0.2
is 'then it is three again' "$(nodes | wc -w)" 3

# With an id: not counted, not given away; by name only: counted as any.
for i in 1 2 3 4 5; do echo "{\"id\":\"order-$i\",\"cmd\":\"echo $i\"}" >"$E/new"; done
for i in 1 2 3 4 5; do mkdir "$E/name-$i"; echo "echo $i" >"$E/name-$i/cmd"; timeout 5 cat "$E/name-$i/code" >/dev/null; done
mkdir "$E/unwritten"
fill 4
sleep 0.3
is 'orders stay' "$(nodes | tr ' ' '\n' | grep -c '^order-')" 5
is 'one without a command too' "$(ls -d "$E/unwritten" | wc -l)" 1
is 'names went as numbers do' "$(nodes | tr ' ' '\n' | grep -c '^name-')" 0
before=$(nodes)
stop_hutchd
start_hutchd
is 'all that after a restart' "$(nodes)" "$before"
is 'keep too' "$(cat "$E/keep")" 3
echo start >"$T/b/ctl"
wait_for 10 state_is b running
fill 2
sleep 0.3
is 'and it goes on' "$(nodes | tr ' ' '\n' | grep -c '^[0-9]') $(nodes | tr ' ' '\n' | grep -c '^order-')" '3 5'
is 'an order is still known' "$(echo '{"id":"order-3","cmd":"echo 3"}' >"$E/new"; timeout 5 cat "$E/order-3/stdout")" 3
ok 'rmdir of an order' timeout 5 rmdir "$E/order-3"

# A reader who has just been told the name finds it, also with nothing kept.
echo 0 >"$E/keep"
is 'nothing is kept, and a reader that is there in time has it all' "$(timeout 20 python3 - "$E" <<'X'
import os, sys
E, bad = sys.argv[1], []
for i in range(50):
    fd = os.open(E + "/new", os.O_RDWR)
    os.write(fd, b'["sh","-c","read x; echo got $x"]')
    node = E + "/" + os.read(fd, 99).decode().strip()
    os.close(fd)
    out = open(node + "/stdout")
    with open(node + "/stdin", "w") as f: f.write(f"{i}\n")
    if out.read() != f"got {i}\n": bad.append(i)
    out.close()
print(bad)
X
)" '[]'
ok 'then it is gone' wait_for 5 eval "[ -z \"\$(nodes | tr ' ' '\\n' | grep '^[0-9]')\" ]"
stop_hutchd
