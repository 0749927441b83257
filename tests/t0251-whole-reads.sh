#!/bin/bash
# A read gives all that is there, as of an ordinary file: tar takes less for the end, and rsync the
# size.  And what a read has not given has not been read.
. "$(dirname "$0")/lib.sh"
need root fuse python3 tar rsync

start_hutchd
box b
E=$T/b/exec

# Reads of every size, each through a handle of its own: only the last one is short.
cat >"$W/short.py" <<'X'
import os, sys
for name in sys.argv[1:]:
    size = os.stat(name).st_size
    whole = open(name, "rb").read()
    if len(whole) != size:
        print(name, "has", len(whole), "bytes, of", size)
    for want in 100, 512, 4096, 10240, 65536, 100001, 131072, 1 << 20, 3 << 20:
        for off in {0, 5, size // 3, size // 2, size - want, size - want // 2, size - 600, size - 1}:
            if off < 0:
                continue
            fd = os.open(name, os.O_RDONLY)
            got = os.pread(fd, want, off)
            os.close(fd)
            if got != whole[off:off + want]:
                print(name, "of", size, "at", off, ":", len(got), "of", want)
X
# The kernel has nothing of the spools in its cache.
forget() {
	local f
	for f in "$S"/sandboxes/*/spool/*; do dd if="$f" iflag=nocache count=0 status=none; done
}
tarred() { timeout 120 tar -C "$X" -cf - "$1" 2>&1 | tar -xOf - 2>&1 | cmp - "$X/$1" 2>&1; }

whole() { # WHAT REQUEST
	local f
	run b "$2" 60
	is "$1: it ended" "$C" 0
	is "$1: no read is short" "$(timeout 120 python3 "$W/short.py" "$X"/{stdout,stderr,output,frames} 2>&1)" ''
	for f in stdout output frames result.json code; do
		is "$1: tar takes $f" "$(tarred $f)" ''
		forget
		is "$1: tar takes $f from the disk" "$(tarred $f)" ''
	done
}
whole 'two lines' 'echo out; echo err >&2'
whole 'lines on both' 'i=0; while [ $i -lt 2000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done'
whole 'bulk on both' 'head -c 5000001 /dev/urandom; head -c 3000001 /dev/urandom >&2; head -c 300001 /dev/urandom'
is 'the size of a result' "$(stat -c %s "$X/result.json" "$X/code")" "$(cat "$X/result.json" | wc -c; cat "$X/code" | wc -c)"
timeout 120 rsync -a --exclude={stdin,input,ctl,hold} "$X/" "$W/copy"
for f in stdout stderr output frames result.json code; do ok "rsync takes $f" cmp "$X/$f" "$W/copy/$f"; done

# While it is written too: all that a file is said to have is there in one read.
n=$(node b 'while :; do echo 123456789012345; done')
ok 'a flood' wait_for 20 eval "[ \$(stat -c %s $E/$n/stdout) -gt 3000000 ]"
is 'no read of a flood is short' "$(timeout 120 python3 - "$E/$n" 2>&1 <<'X'
import os, sys
for i in range(100):
    for f in "stdout", "output", "frames":
        fd = os.open(sys.argv[1] + "/" + f, os.O_RDONLY)
        size = os.fstat(fd).st_size
        got = len(os.pread(fd, 200000, size - 200000))
        os.close(fd)
        if got != 200000:
            print(f, "at", size, "-200000:", got)
X
)" ''
timeout 5 bash -c "echo kill >$E/$n/ctl"

# Of a stream that waits for its readers, nothing goes that they were not given, however little they
# ask for.  stderr's come first; when both are full their order is that of draining.
cat >"$W/small.py" <<'X'
import os, sys
fd, size, data = os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2]), b""
while True:
    got = os.read(fd, size)
    if not got:
        break
    data += got
if sys.argv[1].endswith("frames"):
    at, streams = 0, {1: b"", 2: b"", 3: b""}
    while at < len(data):
        end = at + 8 + int.from_bytes(data[at + 4:at + 8], "big")
        streams[data[at]] += data[at + 8:end]
        at = end
    data = streams[2] + streams[1]
sys.stdout.buffer.write(data)
X
# More than a limit and the largest pipe.
request='{"cmd":"seq -f %07.0f 1 3000 >&2; seq -f %07.0f 3001 150000","output_limit":8000,"stderr":"STDERR"}'
want=$(seq -f %07.0f 1 150000 | md5sum)
for f in output frames; do
	[ $f = output ] && stderr=merge || stderr=pipe
	for size in 1000 4096 70000; do
		n=$(node b "${request/STDERR/$stderr}")
		ok "$f by $size: full" wait_for 10 grep -q full "$E/$n/status"
		is "$f by $size: nothing is lost" "$(timeout 120 python3 "$W/small.py" "$E/$n/$f" $size 2>&1 | md5sum)" "$want"
		is "$f by $size: it ended" "$(timeout 10 cat "$E/$n/code")" 0
	done
done
