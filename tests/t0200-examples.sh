#!/bin/bash
# Every script of examples/: what it prints, its exit status, and that nothing is left of it.
. "$(dirname "$0")/lib.sh"
need root fuse userns python3 node gcc make jq bwrap runc

dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../examples" && pwd)
tested=' '
example() { # NAME [ARGUMENT...]: its output, and its status if it is not 0
	local status=0 name=$1
	shift
	timeout -k 1 60 "$dir/$name" "$@" 2>&1 </dev/null || status=$?
	[ $status = 0 ] || echo "status $status"
}
boxes() { find "$T" -mindepth 1 -maxdepth 1 -type d -printf '%f '; }
shows() { # NAME WANTED-OUTPUT [ARGUMENT...]
	local name=$1 want=$2
	shift 2
	is "$name $*" "$(example "$name" "$@")" "$want"
	ok "$name $*: its sandboxes are gone" wait_for 5 eval '[ -z "$(boxes)" ]'
	tested+="$name "
}

start_hutchd
export HUTCH=$T

is 'session.sh' "$(example session.sh | sed 's/process [0-9]*/process N/')" 'hello from process N, user 0'
tested+='session.sh '
shows conversation.sh $'told 3, it says 3\ntold 4, it says 7\ntold 35, it says 42\nexit code 0'
is 'parallel.sh' "$(example parallel.sh 6 | tail -n 1)" '3 of 6 failed'
tested+='parallel.sh '

shows matrix.sh 'all 8 passed'
# shellcheck disable=SC2016
fails='if [ $CSTD$COPT = gnu17-O2 ]; then echo wrong >&2; exit 3; fi; sleep 2468'
shows matrix.sh $'gnu17 -O2: failed with 3 after 0 passed\nwrong\nstatus 1' "$fails"
ok 'matrix.sh: the other seven were ended' wait_for 5 eval '! pgrep -f "^sleep 2468"'

mkdir src
printf 'test:\n\t@cat input | tr a-z A-Z; exit $(STATUS)\n' >src/Makefile
echo 'from make' >src/input
mk() { timeout 60 make -s -f "$dir/Makefile" check SRC=src "$@" 2>&1 </dev/null; }
is 'Makefile: what the command says' "$(mk)" 'FROM MAKE'
like 'Makefile: it fails as the command does' "$(mk COMMAND='echo so; exit 9')" '^so.*check\] Error 9'
mk COMMAND='exit 9' >/dev/null
is 'Makefile: so does make' $? 2
ok 'Makefile: its sandboxes are gone' wait_for 5 eval '[ -z "$(boxes)" ]'
tested+='Makefile '

printf 'echo ran >> /root/log; cat /root/log\n' >job
is 'cron.sh: says nothing when all is well' "$(DAY=1 example cron.sh nightly job)" ''
is 'cron.sh: a second time that day it does nothing' "$(DAY=1 example cron.sh nightly job; wc -l <"$T/nightly/exec/day-1/stdout")" 1
printf 'wc -l < /root/log; echo worse >&2; exit 4\n' >job
is 'cron.sh: the next day, with what to mail' "$(DAY=2 example cron.sh nightly job)" \
	$'nightly of 2: exited 4\n1\nworse\nstatus 4'
timeout 10 bash -c "echo stop > $T/nightly/ctl"
printf 'cat\n' >job
is 'cron.sh: starts the sandbox again; no input' "$(DAY=3 example cron.sh nightly job)" ''
is 'cron.sh: many at once run it once' \
	"$(echo 'echo x >> /root/once; wc -l < /root/once; sleep 0.3' >job
	for i in 1 2 3 4 5; do DAY=4 example cron.sh nightly job & done; wait
	timeout 5 cat "$T/nightly/exec/day-4/stdout")" 1
ok 'cron.sh: rmdir' timeout 10 rmdir "$T/nightly"
tested+='cron.sh '

shows once.sh 'try 1: shipped 1 
try 2: shipped 1 
try 3: shipped 1 
refused: EEXIST
server: started 1 time
server: started 1 time
server: killed'
shows resume.sh 'the sender was killed with status 137
a part of it was taken
all of it has arrived, once'
text=$(example client.py)
like 'client.py' "$text" $'^HELLO FROM PYTHON\nCompletedProcess\(args=.echo oops >&2; exit 3., returncode=3, stdout=b\'\', stderr=b\'oops.n\'\)\n-9\n3 MB there and back: True\nInvalid argument: request: cmd: is empty[^\n]*$'
tested+='client.py '
shows client.js $'HELLO FROM NODE\n3 oops\n124 timed_out\n2 MB there and back: true\nrefused: EINVAL'
shows in-bwrap.sh $'it said: FROM A CONTAINER, and 4\nall that there is of the tree: 1'
shows in-runc.sh 'it said: FROM A CONTAINER, and 4'
shows files.sh $'THE QUICK BROWN FOX\n 4 doc/a.txt\n 5 doc/b.txt\n 9 total\nthe quick brown fox'
shows interpreter.py "fib(20) is 6765
after 1000 questions: 499500
an error: ZeroDivisionError: division by zero
and on: 499501
exit code 0"
is 'follow.sh' "$(example follow.sh | sort)" "$(printf 'err: detail of %s\n' 1 2 3; echo 'exit code 5'; printf 'out: step %s\n' 1 2 3)"
tested+='follow.sh '
shows workers.sh "$(for i in {1..12}; do factor $((i * 1001)); done)" 3 12
is 'a worker is killed, and its sandbox goes with it' "$(
	timeout -k 1 60 "$dir/workers.sh" 2 400 >/dev/null 2>&1 </dev/null & pid=$!
	wait_for 10 eval '[ "$(boxes | wc -w)" = 2 ]' && pkill -KILL -P "$(pgrep -P $pid)" -x workers.sh
	wait_for 10 eval '[ -z "$(boxes)" ]' && echo gone; wait)" gone

for signal in INT TERM HUP KILL; do
	# A group of its own, as a terminal would give it; all but KILL go to the group, as Ctrl-C does.
	env --default-signal=INT,HUP setsid "$dir/hold.sh" 3579 >out 2>&1 </dev/null & pid=$!
	ok "hold.sh: two daemons run ($signal)" wait_for 10 eval 'grep -q "^in hold-" out && [ "$(pgrep -fc "^sleep 1000\$")" = 2 ]'
	[ $signal = KILL ] && kill -KILL $pid || kill -$signal -- -$pid
	ok "hold.sh: SIG$signal, and nothing is left" wait_for 5 eval '[ -z "$(boxes)" ] && ! pgrep -f "^sleep 1000\$"'
	kill -KILL -- -$pid
	wait $pid
done 2>/dev/null
like 'hold.sh' "$(example hold.sh)" $'^two daemons run\nin hold-......$'
tested+='hold.sh '

for example in "$dir"/*; do
	like "tested: ${example##*/}" "$tested" " ${example##*/} "
done
ok 'nothing is left of them' wait_for 5 eval '[ -z "$(boxes)" ]'
is 'nor on the machine' "$(ls -A "$TMPDIR")" ''
stop_hutchd
