#!/bin/bash
# hutch run when things go wrong: closed descriptors, lost readers, signals, what is left behind.
. "$(dirname "$0")/lib.sh"
need root fuse userns

start_hutchd
box b
export HUTCH=$T
h() { timeout -k 1 30 "$BUILD/hutch" "$@"; }
boxes() { find "$T" -mindepth 1 -maxdepth 1 -type d -printf '%f '; }

h run b -- sh -c 'echo x; exit 3' </dev/null >/dev/null
is 'a command leaves nothing in its sandbox' "$(find "$T/b/exec" -mindepth 1 -type d)" ''
is 'all bytes' "$(printf 'a\0b\377\n' | h run b -- cat | od -An -c)" "$(printf 'a\0b\377\n' | od -An -c)"
is 'arguments as they are' "$(h run b -- printf '<%s>' '' 'a b' $'q"\\\t\n' 'é' </dev/null)" \
	"$(printf '<%s>' '' 'a b' $'q"\\\t\n' 'é')"
is 'a JSON list' "$(h ls --json | jq -r '.[] | "\(.id) \(.state) \(.running)/\(.commands)"')" 'b running 0/0'

# Input.
is 'closed input' "$(h run b -- wc -c <&-)" 0
is 'input that is a file which is empty' "$(: >empty; h run b -- wc -c <empty)" 0
h run b -- cat <"$W" 2>err
is 'input that cannot be read' "$? $(grep -c 'standard input' err)" '0 1'

# Output.
h run b -- true </dev/null >&- 2>&-
is 'closed output and nothing to say' $? 0
h run b -- echo x </dev/null >&- 2>err
is 'closed output' "$? $(grep -c 'standard output' err)" '125 1'
h run b -- echo x </dev/null >/dev/full 2>err
is 'a full disk' "$? $(grep -c 'No space left' err)" '125 1'
h run -- yes </dev/null 2>err | head -n 1 >out
is 'a reader that goes away' "${PIPESTATUS[0]} $(cat out err)" '141 y'
is 'takes the sandbox with it' "$(boxes)" 'b '
is 'a child in the background is not waited for' \
	"$(h run b -- sh -c 'sleep 60 & echo started' </dev/null)" started
is 'the last bytes of a flood' "$(h run b -- sh -c 'head -c 20000000 /dev/zero; echo end' </dev/null | tail -c 4)" end

# Wrong usage: 125, and one line.
while IFS='|' read -r what words; do
	# shellcheck disable=SC2086
	h $words </dev/null >out 2>err
	is "$what" "$? $(wc -l <err) $(wc -c <out)" '125 1 0'
done <<-END
	no dashes|run b true
	nothing behind the dashes|run b --
	two sandboxes|run b c -- true
	a name that cannot be|run .b -- true
	an option that is not there|run --no-such-option -- true
	an operand too many|ls b
	a command that is not there|frobnicate
END
h run b -- echo $'caf\xe9' </dev/null 2>err
is 'an argument that is not UTF-8' "$? $(grep -c 'argument 1' err)" '125 1'

# Signals.  env: a job in the background of a script has INT ignored.
start_run() { rm -f out; env --default-signal=INT,QUIT "$BUILD/hutch" run "$@" </dev/null >out 2>err & pid=$!; }
wait_started() { wait_for 5 grep -q started out; }
for sig in INT TERM HUP QUIT; do
	start_run b -- sh -c 'echo started; exec sleep 60'
	wait_started
	kill -s $sig $pid
	wait $pid
	is "$sig is passed on" $? $((128 + $(kill -l $sig)))
done
start_run -- sh -c 'trap "echo caught; exit 5" TERM; echo started; sleep 60 & wait'
wait_started
kill -TERM $pid
wait $pid
is 'the command may catch it' "$? $(tail -n 1 out)" '5 caught'
start_run -- sh -c 'trap "" INT TERM; echo started; while :; do sleep 0.1; done'
wait_started
kill -INT $pid
sleep 0.3
ok 'and may ignore it' kill -0 $pid
kill -TERM $pid
wait $pid
is 'a second one kills' $? 137
is 'nothing is left' "$(boxes)" 'b '
rm -f out
"$BUILD/hutch" run b -- sh -c 'echo started; sleep 0.5' </dev/null >out 2>err & # INT is ignored here
pid=$!
wait_started
kill -INT $pid
wait $pid
is 'a signal that was ignored stays ignored' $? 0

for box in b ''; do
	# shellcheck disable=SC2086
	start_run $box -- sh -c 'echo started; exec sleep 7655'
	wait_started
	kill -KILL $pid
	wait $pid 2>/dev/null
	ok "kill -9 ends the command in '$box'" wait_for 5 eval "! pgrep -f '^sleep 7655'"
done
ok 'and the throw-away sandbox' wait_for 5 eval "[ \"\$(boxes)\" = 'b ' ]"

# What it depends on goes away.
start_run b -- sh -c 'echo started; exec sleep 60'
wait_started
rmdir "$T/b"
wait $pid
is 'its sandbox is removed' "$? $(grep -c 'removed' err)" '137 1'
start_run -- sh -c 'echo started; exec sleep 60'
wait_started
kill -KILL "$(hutchd_pid)"
wait $pid
is 'hutchd is killed' "$? $(grep -c 'hutchd of .* has died' err)" '125 1'
h ls 2>err
is 'and hutch ls says so' "$? $(grep -c 'has died' err)" '125 1'
sleep 1.5
start_hutchd
stop_hutchd
