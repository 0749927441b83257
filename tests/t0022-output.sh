#!/bin/bash
# output and frames: both streams in one file, in the order in which they came.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

# A reader of frames that shares nothing with ours.  decode FILE: how many frames, what is in them in
# their order, with o and e for the stream, and what the result says; or what is wrong with it.
cat >"$W/decode.py" <<'X'
import json, struct, sys
def decode(data):
    at, frames = 0, []
    while at < len(data):
        assert len(data) - at >= 8, "cut in a header"
        kind, zero, length = data[at], data[at + 1:at + 4], struct.unpack(">I", data[at + 4:at + 8])[0]
        assert zero == b"\0\0\0" and length <= 65536, "not a header"
        assert at + 8 + length <= len(data), "cut in a payload"
        assert not frames or frames[-1][0] != 3, "behind the exit frame"
        frames.append((kind, data[at + 8:at + 8 + length]))
        at += 8 + length
    assert frames and frames[-1][0] == 3, "no exit frame"
    return frames
if __name__ == "__main__":
    frames = decode(open(sys.argv[1], "rb").read())
    res = json.loads(frames[-1][1])
    print("%d:" % len(frames), *["oe"[k - 1] + p.decode().replace("\n", "/") for k, p in frames[:-1]],
          "code %d %s" % (res["exit_code"], res["signal"] or res["error"] or "-"))
X
decode() { timeout 60 cat "$1" >"$W/frames" && python3 "$W/decode.py" "$W/frames" 2>&1 | tail -1; }
# streams FILE OUT ERR: takes frames apart.
streams() {
	PYTHONPATH=$W timeout 60 python3 - "$@" <<'X'
import sys
from decode import decode
frames = decode(open(sys.argv[1], "rb").read())
for kind in (1, 2): open(sys.argv[1 + kind], "wb").write(b"".join(p for k, p in frames if k == kind))
X
}

start_hutchd
box b
until_file() { echo "while [ ! -e /tmp/$1 ]; do sleep 0.02; done"; }
go() { run b "touch /tmp/$1"; }

# The order between the streams, where there is time between them, is that of writing.
run b 'echo one; sleep 0.3; echo two >&2; sleep 0.3; echo three; sleep 0.3; echo four >&2; exit 7'
is 'output has both in order' "$(timeout 5 cat "$X/output" | tr '\n' ' ')" 'one two three four '
is 'frames too, and the result' "$(decode "$X/frames")" '5: oone/ etwo/ othree/ efour/ code 7 -'
is 'the result is that of result.json' "$(tail -c +$((4 * 8 + 19 + 9)) "$W/frames")" "$(cat "$X/result.json")"
is 'their sizes are what there is' "$(stat -c %s "$X/output" "$X/frames" | tr '\n' ' ')" "19 $(stat -c %s "$W/frames") "
is 'they are listed, and only read' "$(stat -c '%A %n' "$X"/{output,frames} | sed "s,$X/,,")" '-r--r----- output
-r--r----- frames'
refused 'not written' EACCES "echo x > $X/output"
refused 'nor removed' EPERM "rm -f $X/frames"

# Nothing, one, and neither.
run b ':'
is 'no output' "$(timeout 5 cat "$X/output"; decode "$X/frames")" '1: code 0 -'
run b 'echo both; echo err >&2; echo again' && first=$(timeout 5 cat "$X/frames" | md5sum)
is 'frames of a finished one are the same each time' "$(cat "$X/frames" | md5sum)" "$first"
run b '["nope"]'
is 'one that cannot start' "$(decode "$X/frames")" "1: code -1 'nope': no such program in the sandbox's PATH"
run b 'kill -TERM $$'
is 'one that is killed' "$(decode "$X/frames")" '1: code -1 SIGTERM'
run b '{"cmd":"echo a; echo b >&2; echo c","stderr":"merge"}'
is 'merged' "$(tr '\n' ' ' <"$X/output") $(decode "$X/frames")" 'a b c  2: oa/b/c/ code 0 -'
run b '{"cmd":"echo a; echo b >&2","stdout":"null"}'
is 'one stream only' "$(cat "$X/output") $(decode "$X/frames")" 'b 2: eb/ code 0 -'

# A node without a command: as stdout.
timeout 5 mkdir "$T/b/exec/later"
for f in output frames; do refused "$f of a node without a command" EAGAIN "cat $T/b/exec/later/$f"; done
echo 'echo x' >"$T/b/exec/later/cmd"
is 'then it has one' "$(decode "$T/b/exec/later/frames")" '2: ox/ code 0 -'

# Readers follow while it runs: early, late, slow, and in pieces of any size see the same.
cat >"$W/follow.py" <<'X'
import os, sys, time
path, size, pause, to = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
with open(to, "wb", 0) as out:
    fd = os.open(path, os.O_RDONLY)
    while True:
        data = os.read(fd, size)
        if not data: break
        out.write(data)
        time.sleep(pause)
X
n=$(node b "i=0; while [ \$i -lt 60 ]; do i=\$((i+1)); echo out \$i; sleep 0.02; echo err \$i >&2; [ \$i != 20 ] || { $(until_file g1); }; done")
x=$T/b/exec/$n follow=$x pids=()
for f in output frames; do
	timeout 60 python3 "$W/follow.py" "$x/$f" 100000 0 "$W/$f.early" & pids+=($!)
	timeout 60 python3 "$W/follow.py" "$x/$f" 7 0.001 "$W/$f.slow" & pids+=($!)
done
ok 'a reader of frames has what there is, while it runs' wait_for 10 grep -qa 'err 19' "$W/frames.early"
size=$(stat -c %s "$x/frames")
for f in output frames; do
	timeout 60 python3 "$W/follow.py" "$x/$f" 1 0 "$W/$f.late" & pids+=($!)
	timeout 60 tail -c +100 -f "$x/$f" >"$W/$f.tail" 2>/dev/null & tails+=($!)
done
(timeout 60 tail -c +$((size + 1)) "$x/frames" >"$W/frames.resumed") & pids+=($!)
sleep 0.3
go g1
wait "${pids[@]}"
is 'its result' "$(timeout 20 cat "$x/code")" 0
for f in output frames; do
	cat "$x/$f" >"$W/$f.after"
	for r in early slow late; do ok "$f: the $r reader has the same" cmp "$W/$f.$r" "$W/$f.after"; done
	ok "$f: tail -f follows" wait_for 10 cmp "$W/$f.tail" <(tail -c +100 "$W/$f.after")
	for skip in 0 1 7 8 9 100 500 1000; do
		dd if="$x/$f" bs=1 skip=$skip count=300 status=none | cmp -s - <(tail -c +$((skip + 1)) "$W/$f.after" | head -c 300) ||
			fail "$f: from offset $skip"
	done
	pass "$f: from any offset"
done
kill "${tails[@]}" 2>/dev/null
ok 'who goes on at the size that there was begins with a frame' cmp "$W/frames.resumed" <(tail -c +$((size + 1)) "$W/frames.after")
ok 'and can be decoded from there' python3 "$W/decode.py" "$W/frames.resumed"
is 'the order is that of writing' "$(cat "$W/output.after")" "$(for ((i = 1; i <= 60; i++)); do echo "out $i"; echo "err $i"; done)"
streams "$W/frames.after" "$W/o" "$W/e"
ok 'frames have all of stdout' cmp "$W/o" "$x/stdout"
ok 'frames have all of stderr' cmp "$W/e" "$x/stderr"

# poll, O_NONBLOCK, signals.
is 'poll and O_NONBLOCK' "$(timeout 30 python3 - "$T/b/exec" <<'X'
import os, select, sys
base = sys.argv[1]
fd = os.open(base + "/new", os.O_RDWR); os.write(fd, b"read a; echo $a; read b; echo $b >&2; read c; exit 2")
d = base + "/" + os.read(fd, 99).decode().strip()
out, frames = (os.open(d + "/" + f, os.O_RDONLY | os.O_NONBLOCK) for f in ("output", "frames"))
for f in (out, frames):
    try: print("read", os.read(f, 10))
    except BlockingIOError: print("EAGAIN", end=" ")
print(select.select([out, frames], [], [], 0.3)[0])
to = os.open(d + "/stdin", os.O_WRONLY)
os.write(to, b"hello\n")
print(select.select([frames], [], [], 10)[0] == [frames], os.read(frames, 100), os.read(out, 100))
print(select.select([out, frames], [], [], 0.3)[0])
ep = select.epoll(); ep.register(frames, select.EPOLLIN)
os.write(to, b"again\n")
print(len(ep.poll(10)), os.read(frames, 100), os.read(out, 3), os.read(out, 100))
os.write(to, b"end\n"); os.close(to)
print(select.select([frames], [], [], 10)[0] == [frames], os.read(frames, 9)[:4], len(os.read(frames, 9999)) > 100, os.read(frames, 10))
print(select.select([out], [], [], 10)[0] == [out], os.read(out, 10))
X
)" "EAGAIN EAGAIN []
True b'\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x06hello\\n' b'hello\\n'
[]
1 b'\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x06again\\n' b'aga' b'in\\n'
True b'\\x03\\x00\\x00\\x00' True b''
True b''"
n=$(node b 'exec sleep 3214') x=$T/b/exec/$n
for f in output frames; do
	cat "$x/$f" >/dev/null & pid=$!
	sleep 0.3
	is "a reader of $f sleeps interruptibly" "$(awk '/^State/ { print $2 }' /proc/$pid/status)" S
	kill -TERM $pid
	ok "a signal ends a reader of $f" gone $pid 2
done
cat "$x/frames" >"$W/frames" & pid=$!
echo kill >"$x/ctl"
ok 'the end ends a reader' gone $pid 10
is 'with the result' "$(python3 "$W/decode.py" "$W/frames")" '1: code -1 SIGKILL'

# Children that were left behind: frames ends at the result, output when they do.
n=$(node b "(trap '' HUP; $(until_file g2); echo child; sleep 0.2; echo child err >&2; sleep 0.2; echo child again) & echo leader")
x=$T/b/exec/$n
(timeout 60 cat "$x/output" >"$W/held") & pid=$!
is 'frames ends at the result' "$(decode "$x/frames")" '2: oleader/ code 0 -'
sleep 0.3
ok 'output does not' kill -0 $pid
go g2
ok 'output ends with the children' gone $pid 10
is 'and has what they wrote' "$(tr '\n' ' ' <"$W/held")" 'leader child child err child again '
is 'which frames has not' "$(decode "$x/frames")" '2: oleader/ code 0 -'
held=$x

# Streams that are full wait for a reader of both as for any other, and it waits for them.
for f in output frames; do
	n=$(node b '{"cmd":"for i in 1 2 3 4 5; do head -c 40000 /dev/zero; head -c 30000 /dev/zero >&2; done","output_limit":"16K"}')
	is "$f: more than is kept" "$(timeout 30 cat "$T/b/exec/$n/$f" | head -c 360000 | wc -c)" \
		"$(timeout 10 stat -c %s "$T/b/exec/$n/$f")"
	is "$f: then the command has ended" "$(timeout 10 cat "$T/b/exec/$n/code")" 0
	refused "$f: what was given back is gone" EIO "cat $T/b/exec/$n/$f >/dev/null"
	rmdir "$T/b/exec/$n"
done

# Bulk, on both streams at once.
n=$(node b 'head -c 67108864 /dev/urandom & head -c 67108864 /dev/urandom >&2; wait') x=$T/b/exec/$n
timeout 120 cat "$x/frames" >"$W/frames.live" & pid=$!
ok 'both streams of 64 MiB' timeout 120 cat "$x/code"
wait $pid
ok 'frames: decoded' streams "$W/frames.live" "$W/o" "$W/e"
ok 'frames: stdout is whole' cmp "$W/o" "$x/stdout"
ok 'frames: stderr is whole' cmp "$W/e" "$x/stderr"
ok 'frames: the same again' cmp "$W/frames.live" "$x/frames"
is 'output has both' "$(timeout 60 wc -c <"$x/output") $(timeout 60 cat "$x/output" | wc -c)" '134217728 134217728'
is 'output is frames without headers' "$(timeout 60 cat "$x/output" | md5sum)" "$(PYTHONPATH=$W python3 -c '
import sys; from decode import decode
for k, p in decode(open(sys.argv[1], "rb").read())[:-1]: sys.stdout.buffer.write(p)' "$W/frames.live" | md5sum)"
rm -f "$W"/frames.live "$W"/o "$W"/e
rmdir "$x"

# A byte here, a byte there, for long: many pieces cost little, and do not slow a reader.
n=$(node b '{"cmd":["/usr/bin/perl","-e","for (1..20000) { syswrite(STDOUT, \"o\"); select(undef, undef, undef, 0.0001); syswrite(STDERR, \"e\"); }"]}')
many=$T/b/exec/$n
timeout 100 cat "$many/frames" >"$W/many.live" & pid=$!
is '20000 single bytes on each' "$(timeout 100 cat "$many/code")" 0
wait $pid
ok 'decoded' streams "$W/many.live" "$W/o" "$W/e"
is 'they are all there' "$(wc -c <"$W/o") $(wc -c <"$W/e") $(tr -d oe <"$many/output" | wc -c)" '20000 20000 0'
ok 'the same again' cmp "$W/many.live" "$many/frames"
ok 'from its middle' cmp <(tail -c +123457 "$many/frames") <(tail -c +123457 "$W/many.live")
start=$(now_ms)
timeout 20 cat "$many/output" >"$W/many.output"
ok "read again in $(($(now_ms) - start)) ms" test $(($(now_ms) - start)) -lt 2000

# Scanners come to an end.
is 'grep -r ends, and finds' "$(timeout 60 grep -rlas leader "$T/b/exec" | sed 's,.*/,,' | sort | tr '\n' ' ')" \
	'cmd frames output stdout '
ok 'tar ends' bash -c "timeout 60 tar -C '$T/b/exec/$(basename "$held")' -cf - output frames stdout | tar -tf - >/dev/null"
is 'cp of frames' "$(cp "$held/frames" "$W/copy" && python3 "$W/decode.py" "$W/copy")" '2: oleader/ code 0 -'

# After a restart all is as it was.
sums() { for f in "$@"; do timeout 60 md5sum <"$f"; done; }
names=("$T"/b/exec/{1,2,3,4,5,6}/{output,frames} "$follow"/{output,frames} "$held"/{output,frames} "$many"/{output,frames})
sums "${names[@]}" >"$W/before"
ls -l "${names[@]}" | awk '{ print $5 }' >"$W/sizes"
indexes() { [ "$(find "$S" -name '*.idx' | wc -l)" = "$1" ]; }
ok 'only those with many pieces have a file for their order' wait_for 10 indexes 2
stop_hutchd
start_hutchd
ok 'after a restart: the same bytes' cmp "$W/before" <(sums "${names[@]}")
ok 'and sizes' cmp "$W/sizes" <(ls -l "${names[@]}" | awk '{ print $5 }')

# hutchd is killed: what was read of frames and output is true for ever.
echo start >"$T/b/ctl"
wait_for 10 state_is b running
n=$(node b 'while :; do echo out; sleep 0.01; echo err >&2; done') x=$T/b/exec/$n
m=$(node b 'echo a; echo b >&2; sleep 0.3; echo c; sleep 0.3; echo d >&2; exec sleep 3214') y=$T/b/exec/$m
k=$(node b 'echo unseen; exec sleep 3214') z=$T/b/exec/$k
for f in output frames; do
	timeout 60 cat "$x/$f" >"$W/x.$f" 2>/dev/null &
	timeout 60 cat "$y/$f" >"$W/y.$f" 2>/dev/null &
done
has() { [ "$(stat -c %s "$1")" -ge "$2" ]; }
wait_for 20 has "$W/x.frames" 5000
wait_for 20 has "$W/x.output" 2000
wait_for 20 grep -qa d "$W/y.frames"
wait_for 20 grep -qa d "$W/y.output"
crash_hutchd
wait
umount -l "$T" 2>/dev/null
start_hutchd
for f in output frames; do
	ok "after a crash: $f goes on where it was" cmp -n "$(stat -c %s "$W/x.$f")" "$W/x.$f" "$x/$f"
	ok "and of one with few pieces" cmp -n "$(stat -c %s "$W/y.$f")" "$W/y.$f" "$y/$f"
done
cat "$x/frames" >"$W/frames"
like 'frames: the result says that it is lost' "$(python3 "$W/decode.py" "$W/frames" | grep -o 'code.*')" '^code -1 hutchd ended while it ran'
is 'and what nobody has seen is there' "$(decode "$z/frames")" '2: ounseen/ code -1 hutchd ended while it ran'
is 'output has it too' "$(timeout 5 cat "$z/output")" unseen
rmdir "$x" "$y" "$z" "$many" "$follow"
ok 'an index goes with its node' wait_for 10 indexes 0
stop_hutchd
