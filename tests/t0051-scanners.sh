#!/bin/bash
# Programs that read everything: they end, and they never end anything.
. "$(dirname "$0")/lib.sh"
need root fuse userns python3 rsync

start_hutchd
box b
box stopped
run b 'seq 1000; echo err >&2'
run b '["no-such-program"]'
run stopped 'echo x'
echo stop >"$T/stopped/ctl"
wait_for 10 state_is stopped stopped

scanners=(
	'grep -r needle T' 'find T -type f -exec cat {} +' 'tar -C T -cf - . | wc -c' 'cp -a T/. COPY'
	'rsync -a T/ COPY/' 'diff -r T COPY' 'rm -rf COPY; cp -r T COPY'
	'find T -type f -print0 | xargs -0 md5sum' 'du -sa T' 'ls -laR T' 'wc -c $(find T -type f)' 'file $(find T -type f)'
	'python3 -c "import os
for d, _, fs in os.walk(\"T\"):
    for f in fs:
        try: open(os.path.join(d, f), \"rb\").read()
        except OSError: pass"'
)
scan() { # the commands of $s, with its words filled in
	local cmd=${s//T/$T}
	mkdir -p "$W/copy"
	timeout -k 1 60 bash -c "${cmd//COPY/$W/copy}" >"$W/out" 2>&1 </dev/null
	[ $? != 124 ]
}
for s in "${scanners[@]}"; do
	ok "ends when nothing runs: ${s%%$'\n'*}" scan
	rm -rf "$W/copy"
done

# What opening could end: a sandbox and a command that are held; and a node without a command.
box held
quiet=$T/held/exec/$(node held 'exec sleep 5101')
mkdir "$T/held/exec/empty"
exec 8>"$T/held/hold" 9>"$quiet/hold"
alive() { echo "$(timeout 5 cat "$T/held/state" "$quiet/status" "$T/held/exec/empty/status" | tr '\n' ' ')"; }

names=$(ls "$T")
for s in "${scanners[@]}"; do
	short=${s%%$'\n'*}
	# One reads its input, one only works; the held one runs on and on: its streams would be waited for.
	n=$(node b 'cat; echo "needle in the answer"')
	x=$T/b/exec/$n
	wait_for 5 status_is b "$n" running
	scan &
	pid=$!
	sleep 0.7
	is "does not end stdin: $short" "$(status_of b "$n")" running
	is "nor the sandbox: $short" "$(timeout 5 cat "$T/b/state")" running
	is "nor what is held: $short" "$(alive)" 'running running pending '
	echo question >"$x/stdin"
	is "the command had its stdin: $short" "$(timeout 10 cat "$x/stdout" | tr '\n' ' ')" 'question needle in the answer '
	echo kill >"$quiet/ctl"
	ok "ends when the commands have ended: $short" gone $pid 20
	wait $pid
	rm -rf "$W/copy"
	quiet=$T/held/exec/$(node held 'exec sleep 5101')
	exec 9>"$quiet/hold"
done
is 'nothing was made by all this' "$(ls "$T")" "$names"
is 'two nodes and one for each' "$(ls "$T/b/exec" | grep -c '^[0-9]')" $((2 + ${#scanners[@]}))
stop_hutchd
