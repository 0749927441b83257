#!/bin/bash
# One command for a name, whoever asks, how often, at the same time, and over a crash.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

start_hutchd
box b
E=$T/b/exec

# Twenty ask at once, by each of the ways; one runs.
i=0
for how in 'mkdir -p E/N; echo "CMD" > E/N/cmd' 'echo "{\"id\":\"N\",\"cmd\":\"CMD\"}" > E/new' \
	'mkdir -p E/N; printf %s "{\"cmd\":\"CMD\"}" > E/N/cmd' 'mkdir -p E/N && (echo "echo x"; sleep 0.0$((RANDOM % 9)); echo "CMD") > E/N/cmd'; do
	name=at-once-$((++i))
	cmd=${how//E\/N/$E/$name} cmd=${cmd//\"N/\"$name} cmd=${cmd//N\\\"/$name\\\"} cmd=${cmd//E\/new/$E/new}
	cmd=${cmd//CMD/echo ran >> /root/$name; sleep 0.2}
	pids=()
	for k in {1..20}; do timeout 20 bash -c "$cmd" 2>>"$W/said" </dev/null & pids+=($!); done
	failed=0
	for p in "${pids[@]}"; do wait "$p" || failed=$((failed + 1)); done
	is "twenty at once, all are content: ${how:0:30}" "$failed $(cat "$W/said")" '0 '
	is "and it ran once: ${how:0:30}" "$(timeout 10 cat "$E/$name/code") $(out b "cat /root/$name")" '0 ran'
done
is 'twenty with different commands: one wins, the others hear it' "$(timeout 30 python3 - "$E" <<'X'
import errno, json, os, sys, threading
E = sys.argv[1]; said = []
def ask(i):
    fd = os.open(E + "/new", os.O_RDWR)
    try: os.write(fd, json.dumps({"id": "contest", "cmd": f"echo {i}"}).encode()); said.append(i)
    except OSError as e: said.append(errno.errorcode[e.errno])
    os.close(fd)
ts = [threading.Thread(target=ask, args=(i,)) for i in range(20)]
for t in ts: t.start()
for t in ts: t.join()
winner = [s for s in said if isinstance(s, int)]
print(len(winner), said.count("EEXIST"), open(E + "/contest/stdout").read().strip() == str(winner[0]))
X
)" '1 19 True'

# The write that departs from the record is the one that fails: in every place of a text, one write
# or many; a text that ends short fails at its end, which only /bin/echo, cat and their like look at.
record='echo one; echo two; # and a comment'
for when in before after; do
	[ $when = after ] || { mkdir "$E/rec"; printf %s "$record" >"$E/rec/cmd"; timeout 10 cat "$E/rec/code" >/dev/null; }
	is "each place of a text, $when a restart" "$(timeout 60 python3 - "$E/rec/cmd" "$record" <<'X'
import errno, os, sys
path, rec = sys.argv[1], sys.argv[2].encode()
def attempt(pieces):
    fd = os.open(path, os.O_WRONLY); at = None
    for i, p in enumerate(pieces):
        try: os.write(fd, p)
        except OSError as e: at = (i, errno.errorcode[e.errno]); break
    try: os.close(fd)
    except OSError as e: return at or ("close", errno.errorcode[e.errno])
    return at
bad = []
for k in range(len(rec)):
    other = rec[:k] + b"X" + rec[k + 1:]
    if attempt([other]) != (0, "EEXIST"): bad.append(("one", k, attempt([other])))
    if attempt([bytes([c]) for c in other]) != (k, "EEXIST"): bad.append(("bytes", k))
    if k > 0:
        if attempt([rec[:k]]) != ("close", "EEXIST"): bad.append(("short", k, attempt([rec[:k]])))
        if attempt([rec[:k], rec[k:]]) is not None: bad.append(("same", k))
if attempt([rec, b"X"]) != (1, "EEXIST"): bad.append("long")
if attempt([rec]) is not None: bad.append("equal")
print(bad)
X
)" '[]'
	n=$(errors)
	is "a text that ends short, $when a restart: echo does not hear it" "$(bash -c "printf 'echo one' > $E/rec/cmd" 2>&1; echo $?)" 0
	said "but error has it ($when)" EEXIST rec
	no "and last does not point to what was not asked for ($when)" test -e "$E/last"
	no "cat hears it ($when)" bash -c "printf 'echo one' | cat > $E/rec/cmd"
	is "its output is untouched ($when)" "$(timeout 5 cat "$E/rec/stdout")" $'one\ntwo'
	[ $when = before ] || { echo start >"$T/b/ctl"; wait_for 10 state_is b running; }
	refused "an id of that name, with another command ($when)" EEXIST "echo '{\"id\":\"rec\",\"cmd\":\"true\"}' > $E/new"
	ok "with the same ($when)" bash -c "echo '{\"id\":\"rec\",\"cmd\":\"$record\"}' > $E/new"
	[ $when = after ] || { stop_hutchd; start_hutchd; }
done

# A crash between asking and hearing: ask again.
echo '{"id":"paid","cmd":"echo paid >> /root/paid; sleep 600"}' >"$E/new"
wait_for 5 status_is b paid running
wait_for 5 eval '[ "$(out b "wc -l < /root/paid")" = 1 ]'
crash_hutchd
start_hutchd
is 'after a crash it is lost' "$(status_of b paid) $(timeout 5 cat "$E/paid/code")" 'lost 125'
echo start >"$T/b/ctl"
wait_for 10 state_is b running
ok 'asked again' timeout 5 bash -c "echo '{\"id\":\"paid\",\"cmd\":\"echo paid >> /root/paid; sleep 600\"}' > $E/new"
is 'it does not run a second time' "$(status_of b paid) $(out b 'wc -l < /root/paid')" 'lost 1'
ok 'rmdir of it' timeout 5 rmdir "$E/paid"
ok 'and the name is free' timeout 5 bash -c "echo '{\"id\":\"paid\",\"cmd\":\"echo again\"}' > $E/new"
is 'for another' "$(timeout 5 cat "$E/paid/stdout")" again

# mktemp in exec/, many at a time.
for i in {1..40}; do (d=$(mktemp -d "$E/j-XXXXXX") && echo "echo $i" >"$d/cmd" && timeout 20 cat "$d/stdout" >"$W/j.$i") & done
wait
is '40 mktemp -d at once' "$(cat "$W"/j.* | sort -n | tr '\n' ' ')" "$(seq 40 | tr '\n' ' ')"
is 'have 40 names' "$(ls -d "$E"/j-?????? | wc -l)" 40
stop_hutchd
