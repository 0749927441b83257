#!/bin/bash
# Everything that people use to write a file, against both kinds of ctl.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3 dash

start_hutchd
box b
ctl=$T/b/ctl

writers=(
	'echo "LINE" > F'
	'echo "LINE" >> F'
	'dash -c "echo LINE > F"'
	'/bin/echo "LINE" > F'
	'/usr/bin/printf "LINE\n" > F'
	'printf "LINE" > F'
	'printf "LINE\n\n\n" > F'
	'echo "LINE" | tee F'
	'echo "LINE" | cat > F'
	'python3 -c "open(\"F\", \"w\").write(\"LINE\")"'
	'(echo "LINE"; sleep 1; echo) > F'
	'exec 3> F; echo "LINE" >&3'
	$'cat <<X > F\nLINE\nX'
)
for w in "${writers[@]}"; do
	short=${w//$'\n'/ }
	for verb in stop start; do
		cmd=${w//F/$ctl}
		ok "ctl of a sandbox, $verb: $short" timeout 10 bash -c "${cmd//LINE/$verb}"
		want=running
		[ $verb = start ] || want=stopped
		ok "it took effect: $short" wait_for 10 state_is b $want
	done
	n=$(node b 'trap "" HUP; sleep 3210')
	ok "a command runs: $short" wait_for 5 status_is b "$n" running
	cmd=${w//F/$T/b/exec/$n/ctl}
	ok "ctl of a command, signal TERM: $short" timeout 10 bash -c "${cmd//LINE/signal TERM}"
	ok "it took effect: $short" wait_for 5 status_is b "$n" 'signaled SIGTERM'
done

# Several verbs in one write, and in several: in the order written.
ok 'printf of three lines' timeout 10 bash -c "printf 'stop\nstart\nkill\n' > $ctl"
ok 'ends running' wait_for 10 state_is b running
ok 'a group: stop, a pause, start' timeout 10 bash -c "(echo stop; sleep 1; echo start) > $ctl"
ok 'ends running' wait_for 10 state_is b running
ok 'a group: start, then stop' timeout 10 bash -c "(echo start; echo stop) > $ctl"
ok 'ends stopped' wait_for 10 state_is b stopped
ok 'a verb whose effect is there succeeds: stop' timeout 10 bash -c "echo stop > $ctl"
ok 'start' timeout 10 bash -c "echo start > $ctl"
ok 'a verb whose effect is there succeeds: start' timeout 10 bash -c "echo start > $ctl"
ok 'it runs' wait_for 10 state_is b running

n=$(node b 'trap "echo got >&2" USR1; echo ready; while :; do sleep 0.1; done')
x=$T/b/exec/$n
ok 'it is ready' wait_for 5 grep -q ready "$x/stdout" --max-count=1
ok 'three signals in three lines' timeout 10 bash -c "printf 'signal USR1\nsignal SIGUSR1\nsignal 10\n' > $x/ctl"
ok 'the trap ran' wait_for 5 eval "[ \$(stat -c %s $x/stderr) -ge 4 ]"
for f in "$ctl" "$x/ctl"; do
	name=${f#"$T/"}
	ok "touch $name" timeout 5 touch "$f"
	ok "truncate $name" timeout 5 truncate -s0 "$f"
	ok ": > $name" timeout 5 bash -c ": > $f"
	ok "true >> $name" timeout 5 bash -c "true >> $f"
	ok "a blank line into $name" timeout 5 bash -c "echo > $f"
	timeout 5 bash -c "exec 3<>$f && echo >&3" 2>/dev/null
	is "exec 3<> $name does not hang" "$([ $? != 124 ] && echo fine)" fine
	refused "an unknown verb into $name" EINVAL "echo frobnicate > $f"
	said "and it is named" EINVAL 'frobnicate'
	refused "an unknown verb by python into $name" EINVAL "printf 'with open(\"$f\", \"w\") as f: f.write(\"frobnicate\")' | python3 -"
	refused "control characters into $name" EINVAL "printf 'sto\\001p\n' > $f"
	refused "a NUL into $name" EINVAL "printf 'stop\\0\n' > $f"
	refused "reading $name" EACCES "cat $f"
done
refused 'an unknown signal' EINVAL "echo signal NOSUCH > $x/ctl"
said 'is named' EINVAL 'NOSUCH'
refused 'a signal that is no signal' EINVAL "echo signal 4711 > $x/ctl"
refused 'a signal without a name' EINVAL "echo signal > $x/ctl"
is 'all this did no harm' "$(status_of b "$n") $(timeout 5 cat "$T/b/state")" 'running running'
before=$(errors)
ok 'kill' timeout 5 bash -c "echo kill > $x/ctl"
ok 'killed' wait_for 5 status_is b "$n" killed
ok 'kill of what is over succeeds' timeout 5 bash -c "echo kill > $x/ctl"
ok 'a signal to what is over succeeds' timeout 5 bash -c "echo signal TERM > $x/ctl"
ok 'close-stdin of what is over succeeds' timeout 5 bash -c "echo close-stdin > $x/ctl"
is 'without a line in error' "$(errors)" "$before"

# kill of the sandbox: every command, the sandbox runs on.
n1=$(node b 'sleep 3211') n2=$(node b 'sleep 3212')
ok 'ctl kill' timeout 5 bash -c "echo kill > $ctl"
ok 'ends the first' wait_for 5 status_is b "$n1" killed
ok 'ends the second' wait_for 5 status_is b "$n2" killed
is 'the sandbox runs on' "$(timeout 5 cat "$T/b/state") $(out b 'echo on')" 'running on'
stop_hutchd
