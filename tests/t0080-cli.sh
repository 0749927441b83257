#!/bin/bash
# hutch, the command line: run and ls.
. "$(dirname "$0")/lib.sh"
need root fuse userns

start_hutchd
box b
export HUTCH=$T
h() { timeout -k 1 30 "$BUILD/hutch" "$@"; }
is 'run in a sandbox' "$(h run b -- echo 'two  words' '$HOME' </dev/null)" 'two  words $HOME'
is 'both outputs, each on its own' "$(h run b -- sh -c 'echo out; echo err >&2' 2>"$W/err" </dev/null) $(cat "$W/err")" 'out err'
h run b -- sh -c 'exit 7' </dev/null
is 'exits as the command did' $? 7
h run b -- sh -c 'kill -TERM $$' </dev/null
is 'a signal' $? 143
h run b -- no-such-program </dev/null 2>"$W/err"
is 'not found' $? 127
like 'and says so' "$(cat "$W/err")" 'no-such-program'
is 'stdin is forwarded' "$(printf 'a\nb\n' | h run b -- tr a-z A-Z | tr '\n' ' ')" 'A B '
head -c 3000000 /dev/urandom >"$W/data"
is 'in bulk' "$(h run b -- cat <"$W/data" | md5sum)" "$(md5sum <"$W/data")"
is 'empty stdin' "$(h run b -- wc -c </dev/null)" 0
is 'a command that does not read' "$(yes | h run b -- echo ok)" ok
before=$(ls "$T")
is 'a throw-away sandbox' "$(h run -- uname -n </dev/null | grep -c .)" 1
is 'is gone afterwards' "$(ls "$T")" "$before"
h run -- sh -c 'exit 9' </dev/null
is 'its exit code' $? 9
is 'gone again' "$(ls "$T")" "$before"
like 'ls shows the sandbox and its state' "$(h ls)" $'b\trunning'
h run nosuchbox -- true </dev/null 2>"$W/err"
is 'a sandbox that is not there' "$([ $? != 0 ] && grep -c nosuchbox "$W/err")" 1
h frobnicate 2>"$W/err"
is 'an unknown command' "$([ $? != 0 ] && grep -c frobnicate "$W/err")" 1
like 'help' "$(h --help)" 'run'
HUTCH=$W/none h ls 2>"$W/err"
is 'no tree' "$([ $? != 0 ] && grep -c "$W/none" "$W/err")" 1
env --default-signal=INT "$BUILD/hutch" run -- sleep 7654 </dev/null >/dev/null 2>&1 &
pid=$!
wait_for 5 eval "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -q 'sleep [7]654'"
sleep 0.3
kill -INT $pid
ok 'Ctrl-C ends it' gone $pid 5
ok 'and the command' wait_for 5 eval "! pgrep -f '^sleep 7654' "
ok 'and the throw-away sandbox' wait_for 5 eval "[ \"\$(ls $T)\" = '$before' ]"
stop_hutchd
