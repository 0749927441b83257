#!/bin/bash
# Programs that read everything: they end, and they never end anything.
. "$(dirname "$0")/lib.sh"
need root fuse userns python3

start_hutchd
box b
box stopped
run b 'seq 1000; echo err >&2'
run b '["no-such-program"]'
run stopped 'echo x'
echo stop >"$T/stopped/ctl"
wait_for 10 state_is stopped stopped

names=$(ls "$T")
scanners=(
	'grep -r needle T' 'find T -type f -exec cat {} +' 'tar -C T -cf - . | wc -c' 'cp -a T/. COPY'
	'find T -type f -print0 | xargs -0 md5sum' 'du -sa T' 'ls -laR T' 'wc -c $(find T -type f)' 'file $(find T -type f)'
	'python3 -c "import os
for d, _, fs in os.walk(\"T\"):
    for f in fs:
        try: open(os.path.join(d, f), \"rb\").read()
        except OSError: pass"'
)
for s in "${scanners[@]}"; do
	short=${s%%$'\n'*}
	mkdir "$W/copy"
	s=${s//T/$T} s=${s//COPY/$W/copy}
	timeout -k 1 60 bash -c "$s" >"$W/out" 2>&1 </dev/null
	is "ends when nothing runs: $short" "$([ $? != 124 ] && echo yes)" yes

	n=$(node b 'cat; echo "needle in the answer"')
	x=$T/b/exec/$n
	wait_for 5 status_is b "$n" running
	rm -rf "$W/copy" && mkdir "$W/copy"
	timeout -k 1 60 bash -c "$s" >"$W/out" 2>&1 </dev/null &
	pid=$!
	sleep 1
	is "does not end stdin: $short" "$(status_of b "$n")" running
	is "nor the sandbox: $short" "$(timeout 5 cat "$T/b/state")" running
	echo question >"$x/stdin"
	is "the command had its stdin: $short" "$(timeout 10 cat "$x/stdout" | tr '\n' ' ')" 'question needle in the answer '
	ok "ends when the command has ended: $short" gone $pid 20
	wait $pid
	rm -rf "$W/copy"
done
is 'nothing was made by all this' "$(ls "$T")" "$names"
is 'two nodes and one for each' "$(ls "$T/b/exec" | grep -c '^[0-9]')" $((2 + ${#scanners[@]}))
stop_hutchd
