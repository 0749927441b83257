#!/bin/bash
# hutch kill, rm, logs.
. "$(dirname "$0")/lib.sh"
need root fuse userns

start_hutchd
box a
export HUTCH=$T
h() { timeout -k 1 30 "$BUILD/hutch" "$@" </dev/null; }
sleeper() { node "$1" '["sh","-c","trap \"echo caught; exit 9\" USR1; echo ready; while :; do sleep 0.1; done"]'; }
ready() { wait_for 5 grep -q ready "$T/$1/exec/$2/stdout"; }

# kill
n=$(sleeper a)
ready a "$n"
ok 'kill with a signal' h kill -s USR1 "a/$n"
ok 'which the command may catch' wait_for 5 status_is a "$n" 'exited 9'
n=$(sleeper a)
ok 'kill of the last one' h kill a/last
ok 'reaches it' wait_for 5 status_is a "$n" killed
ok 'of one that has ended: nothing to do' h kill "a/$n"
m=$(sleeper a) n=$(sleeper a)
ready a "$m" && ready a "$n"
ok 'a signal to all' h kill --signal SIGUSR1 a
ok 'reaches the first' wait_for 5 status_is a "$m" 'exited 9'
ok 'and the second' wait_for 5 status_is a "$n" 'exited 9'
m=$(sleeper a) n=$(sleeper a)
ok 'kill all' h kill a
ok 'the first' wait_for 5 status_is a "$m" killed
ok 'the second' wait_for 5 status_is a "$n" killed
is 'the sandbox runs on' "$(out a 'echo on')" on
n=$(sleeper a)
h kill nosuch a/nosuch "a/$n" 2>err
is 'several, of which some are not there' "$? $(wc -l <err)" '125 2'
ok 'the others are killed' wait_for 5 status_is a "$n" killed
h kill -s NOSUCH a 2>err
is 'no such signal' "$? $(grep -c "'NOSUCH'" err)" '125 1'
h kill 2>err
is 'nobody' $? 125

# logs
run a 'echo out; echo err >&2; printf "\0\377 no newline"'
h logs "a/$N" >o 2>e
is 'logs: each stream' "$? $(cmp o "$X/stdout" 2>&1)$(cmp e "$X/stderr" 2>&1)" '0 '
is 'logs of the last command' "$(h logs a 2>/dev/null | sha1sum)" "$(sha1sum <o)"
n=$(node a 'echo one; read -r x; echo "two $x"; echo three >&2; exit 4')
wait_for 5 grep -q one "$T/a/exec/$n/stdout"
is 'logs of what still runs: so far' "$(h logs "a/$n")" one
timeout 20 "$BUILD/hutch" logs -f "a/$n" >o 2>e </dev/null &
pid=$!
wait_for 5 grep -q one o
echo more >"$T/a/exec/$n/stdin"
wait $pid
is 'logs -f: to the end' "$? $(tr '\n' ' ' <o)$(cat e)" '0 one two more three'
node a 'head -c 30000000 /dev/zero; echo end' >/dev/null
is 'logs -f of a flood' "$(h logs -f a | wc -c)" 30000004
n=$(node a 'echo x; sleep 600')
wait_for 5 grep -q x "$T/a/exec/$n/stdout"
{ "$BUILD/hutch" logs -f "a/$n" </dev/null; echo "${PIPESTATUS[0]}" >status; } | head -n 1 >o
is 'logs -f ends with its reader' "$(wait_for 5 test -s status; cat status) $(cat o)" '141 x'
timeout 20 "$BUILD/hutch" logs -f "a/$n" >o 2>e </dev/null &
pid=$!
wait_for 5 grep -q x o
rmdir "$T/a/exec/$n"
ok 'logs -f of what is removed: ends' gone $pid 5
wait $pid
h logs a/nosuch 2>err
is 'logs of what is not there' "$? $(grep -c 'hutch ps a' err)" '125 1'
for name in new keep; do
	h logs a/$name 2>err
	is "logs of $name, which is no command" "$? $(grep -c 'hutch ps a' err)" '125 1'
done
h run a -- true
h logs a 2>err
is 'logs of the last command, which was removed' "$? $(grep -c 'was removed' err)" '125 1'

# Of a stream that is full and waits: what is there, once.
n=$(node a '{"cmd":"echo so far >&2; yes","output_limit":8000}')
wait_for 10 status_is a "$n" 'running (stdout full)'
is 'logs of what floods: so far' "$(h logs "a/$n" 2>e | wc -c) $(cat e)" '8000 so far'
h logs "a/$n" >o 2>e
is 'logs again: says that it was given back' "$? $(wc -c <o) $(grep -c output_limit e) $(grep -c 'so far' e)" '125 0 1 1'
h rm -f "a/$n"

# rm
n=$(sleeper a)
ready a "$n"
h rm "a/$n" 2>err
is 'rm of what runs' "$? $(grep -c 'it runs' err)" '125 1'
ok 'with -f' h rm -f "a/$n"
no 'it has gone' test -e "$T/a/exec/$n"
n=$(node a 'sleep 600')
wait_for 5 status_is a "$n" running
h rm a 2>err
is 'rm of a sandbox in which something runs' "$? $(grep -c '1 command still runs' err)" '125 1'
h kill a
wait_for 5 status_is a "$n" killed
ok 'rm of one in which nothing runs' h rm a
no 'it has gone too' test -e "$T/a"
box a
box c
node a 'sleep 600' >/dev/null
h rm -f nosuch a c/nosuch c 2>err
is 'rm -f of several, also of none' "$? $(cat err) $(find "$T" -mindepth 1 -type d -path "*/[ac]")" '0  '
h rm nosuch 2>err
is 'rm of none' "$? $(grep -c "'nosuch'" err)" '125 1'
h rm ../x 2>err
is 'rm of what is no name' $? 125
box mine
as 12345 "$BUILD/hutch" rm -f mine 2>err </dev/null
is "rm of another's" "$? $(grep -c 'not yours' err)" '125 1'
ok 'it is still there' test -d "$T/mine"
stop_hutchd
