#!/bin/bash
# hutch run: its options, mounts, and that nothing survives it.
. "$(dirname "$0")/lib.sh"
need root fuse userns

start_hutchd
box b
export HUTCH=$T
h() { timeout -k 1 30 "$BUILD/hutch" "$@" </dev/null; }
boxes() { find "$T" -mindepth 1 -maxdepth 1 -type d -printf '%f '; }

is 'env' "$(h run --env A=1 -e 'B=two words' b -- sh -c 'echo "$A $B"')" '1 two words'
is 'options may stand behind the sandbox' "$(h run b --env A=1 -- sh -c 'echo $A')" 1
is 'env: the last one counts, and it may be empty' "$(h run b -e A=1 -e A= -- sh -c 'echo "<$A>"')" '<>'
is 'env: from here' "$(PASSED=on h run b -e PASSED -- sh -c 'echo $PASSED')" on
is 'cwd' "$(h run --cwd /tmp b -- pwd)" /tmp
is 'user' "$(h run --user 1:2 b -- sh -c 'id -u; id -g' | tr '\n' ' ')" '1 2 '
start=$(now_ms)
h run --timeout 0.5 b -- sleep 20 2>err
is 'timeout' "$? $(grep -c 'time limit' err) $(($(now_ms) - start < 10000))" '124 1 1'
is 'in a throw-away sandbox too' "$(h run -e A=1 -w /tmp -u 1 -- sh -c 'echo $A; pwd; id -u' | tr '\n' ' ')" '1 /tmp 1 '

mkdir -p src/sub
echo data >src/f
chmod 755 src
is 'mount' "$(h run --mount src:/mnt -- cat /mnt/f)" data
is 'mount: its own path' "$(h run -m src -- cat "$W/src/f")" data
h run -m src:/mnt -- sh -c 'echo x >/mnt/g' 2>err
is 'mount: read-only' "$? $(ls src)" $'2 f\nsub'
ok 'mount: writable' h run -m src:/mnt:rw -- sh -c 'echo new >/mnt/g'
is 'as this user' "$(stat -c %u:%g src/g) $(cat src/g)" "$(id -u):$(id -g) new"
is 'a mount that fails while it is made: each time with the reason' \
	"$(for i in {1..20}; do h run -m "$S:/mnt" -- true 2>&1 </dev/null | grep -c "is in hutch's state directory"; done | sort | uniq -c | tr -s ' ')" \
	' 20 1'
is 'two mounts' "$(h run -m src:/a -m src/sub:/b:ro -- sh -c 'ls /a /b' | tr '\n' ' ')" '/a: f g sub  /b: '

# Wrong usage: 125, one line, nothing is made.
while IFS='|' read -r what regex words; do
	# shellcheck disable=SC2086
	h run $words >out 2>err
	is "$what" "$? $(wc -l <err) $(wc -c <out) $(boxes)" '125 1 0 b '
	like 'and says so' "$(cat err)" "$regex"
done <<-'END'
	mount into a sandbox that is there|--mount: sandbox 'b' is made already|-m src b -- true
	mount of nothing|'none': No such file|-m none:/mnt -- true
	mount to a relative place|absolute DST|-m src:mnt -- true
	mount over the system|/usr|-m src:/usr/bin -- true
	env without a name|NAME=VALUE|-e =x b -- true
	env that is not set|UNSET|-e UNSET b -- true
	timeout that is no number|'soon': must be a number|-t soon b -- true
	timeout of nothing|above 0|-t 0 b -- true
	a relative cwd|cwd|-w tmp b -- true
END
h run -u nobody-such b -- true 2>err
is 'a user who is not there' "$? $(grep -c nobody-such err)" '126 1'
is 'nothing is left in the sandbox' "$(find "$T/b/exec" -mindepth 1 -type d)" ''

# Nothing survives, however hutch ends.
for sandbox in '' b; do
	rm -f out
	# shellcheck disable=SC2086
	"$BUILD/hutch" run $sandbox -- sh -c 'echo started; sleep 4711' </dev/null >out 2>err &
	pid=$!
	wait_for 5 grep -q started out
	kill -KILL $pid
	wait $pid 2>/dev/null
	ok "kill -9, ${sandbox:-a throw-away sandbox}: the command ends" \
		wait_for 5 eval "! pgrep -f '^sleep 4711'"
done
ok 'and the throw-away sandbox goes' wait_for 5 eval "[ \"\$(find '$T' -mindepth 1 -maxdepth 1 -type d)\" = '$T/b' ]"
stop_hutchd
