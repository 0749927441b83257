#!/bin/bash
# Real work in bulk: every byte arrives, in order, whoever is slow.
. "$(dirname "$0")/lib.sh"
need root fuse userns python3 sqlite3

start_hutchd
box b

head -c 104857600 /dev/urandom >"$W/100MB"
want=$(md5sum <"$W/100MB")
n=$(node b '["python3","-c","import shutil, sys\nshutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer, 1 << 16)"]')
x=$T/b/exec/$n
(timeout 120 md5sum <"$x/stdout" >"$W/sum") & reader=$!
ok '100 MB into a Python script' timeout 120 bash -c "cat $W/100MB > $x/stdin"
ok 'its output ends' gone $reader 60
is '100 MB through Python, read meanwhile' "$(cat "$W/sum")" "$want"
is 'again, read afterwards' "$(timeout 60 md5sum <"$x/stdout")" "$want"
is 'exit code' "$(timeout 5 cat "$x/code")" 0
n=$(node b 'cat')
x=$T/b/exec/$n
(timeout 120 cp "$W/100MB" "$x/stdin") &
is '100 MB through cat by cp' "$(timeout 120 md5sum <"$x/stdout")" "$want"
n=$(node b 'gzip -1 | gzip -d | md5sum')
x=$T/b/exec/$n
ok '100 MB into a pipeline' timeout 120 bash -c "dd if=$W/100MB of=$x/stdin bs=1M status=none"
is 'its sum' "$(timeout 60 cat "$x/stdout")" "$want"
n=$(node b 'cat > /root/100MB; md5sum < /root/100MB')
ok '100 MB into a file' timeout 120 bash -c "cat $W/100MB > $T/b/exec/$n/stdin"
is 'is there' "$(timeout 60 cat "$T/b/exec/$n/stdout")" "$want"
run b 'cat /root/100MB; rm /root/100MB' 60
ok 'a finished stream can be copied' timeout 60 cp "$X/stdout" "$W/copy"
ok 'byte for byte' cmp "$W/copy" "$W/100MB"
is 'to the byte in the result' "$(timeout 5 grep -o '"stdout_bytes": *[0-9]*' "$X/result.json" | grep -o '[0-9]*$')" 104857600
rm -f "$W/copy"

python3 -c '
import random
random.seed(1)
for i in range(1000000): print(random.randrange(10**9))' >"$W/million"
n=$(node b 'sort -n')
x=$T/b/exec/$n
(timeout 60 bash -c "cat $W/million > $x/stdin") &
is 'sort of a million lines' "$(timeout 60 md5sum <"$x/stdout")" "$(sort -n "$W/million" | md5sum)"

n=$(node b 'sqlite3 /root/test.db')
x=$T/b/exec/$n
python3 - >"$W/sql" <<'X'
print("create table t (id integer primary key, name text, n real); begin;")
for i in range(50000): print(f"insert into t (name, n) values ('name {i}', {i}.5);")
print("commit; create index i on t(name); select count(*), sum(n) from t; pragma integrity_check;")
X
ok 'sqlite3 reads SQL on stdin' timeout 60 bash -c "cat $W/sql > $x/stdin"
is 'sqlite3 makes a database' "$(timeout 60 cat "$x/stdout" | tr '\n' ' ')" '50000|1250000000.0 ok '
is 'which the next command reads' "$(out b '["sqlite3","/root/test.db","select name from t where id = 777"]')" 'name 776'
is 'and which comes out whole' "$(out b 'cat /root/test.db' >"$W/db"; sqlite3 "$W/db" 'select max(id) from t')" 50000

# 1 GB, read while it is made; by a quick reader and by one that stops in between.
want=$(seq 120000000 | md5sum)
n=$(node b 'seq 120000000')
x=$T/b/exec/$n
(timeout 200 bash -c '{ head -c 100000000; sleep 3; cat; } | md5sum' <"$x/stdout" >"$W/stopper") & stopper=$!
is '1 GB read while it is made' "$(timeout 200 md5sum <"$x/stdout")" "$want"
ok 'and by a reader that stopped in between' gone $stopper 100
is 'every byte' "$(cat "$W/stopper")" "$want"
is 'the command ended well' "$(timeout 30 cat "$x/code")" 0
ok 'rmdir of the node gives the disk back' timeout 10 rmdir "$x"
pid=$(hutchd_pid) most=100000
if ldd "$HUTCHD" | grep -q libasan; then most=800000; fi # it keeps what was freed
ok 'the daemon has not grown' test "$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")" -lt $most
stop_hutchd
