#!/bin/bash
# hutch cp: both ways, as cp -r would; what goes wrong; what ends it.
. "$(dirname "$0")/lib.sh"
need root fuse userns script python3 pgrep

start_hutchd
box b
export HUTCH=$T
h() { timeout -k 1 60 "$BUILD/hutch" "$@" </dev/null; }
# Everything that is to be kept, of what is below a directory.
facts() { (cd "$1" && find . -printf '%P|%y|%m|%T@|%l|' \( -type f -exec sh -c 'sha1sum <"$1"' _ {} \; -o -printf '\n' \) | sort); }
untimed() { awk -F '|' '$2 == "d" { $4 = "" } { print }'; }

n=$(printf 'n%.0s' {1..150})
mkdir -p tree/sub/deep "tree/$n/$n" tree/none
echo a >tree/a
chmod 640 tree/a
ln -s a tree/link
ln -s /etc/passwd tree/abs
ln -s "$n$n" tree/dangling
ln tree/a tree/same
head -c 3000001 /dev/urandom >tree/sub/deep/big
: >tree/empty
echo x >$'tree/a\nline'
echo y >$'tree/latin\xe9'
echo z >"tree/$n/$n/$n"
echo t >'tree/*'
echo d >'tree/-d'
chmod 555 tree/sub
touch -d '2001-02-03 04:05:06.123456789' tree/a tree/sub/deep tree/none
touch -d '1965-01-01' tree/empty

ok 'a directory in' h cp tree b:/tmp
ok 'and out' h cp b:/tmp/tree back
is 'is what it was' "$(facts back)" "$(facts tree)"
ok 'into a directory that is there' h cp b:/tmp/tree back
is 'gets its name' "$(facts back/tree)" "$(facts tree)"
mkdir held
ok 'what it holds' h cp b:/tmp/tree/. held
touch -r tree held
is 'goes into it' "$(facts held)" "$(facts tree)"
ok 'the same in' h cp tree/. b:/opt
is 'goes into it' "$(h run b -- sh -c 'cat /opt/a; ls /opt | wc -l' | tr '\n' ' ')" \
	"a $(h run b -- sh -c 'ls /opt | wc -l') "
ok 'again, over it' h cp b:/tmp/tree/ back
is 'is the same, but for times of directories' "$(facts back/tree | untimed)" "$(facts tree | untimed)"
ok 'in, to a name that is new' h cp tree b:/tmp/other/
ok 'and out' h cp b:/tmp/other/ third/
is 'the same' "$(facts third)" "$(facts tree)"
ok 'a file in' h cp tree/a b:
is 'is at home' "$(h run b -- cat /root/a)" a
ok 'a file out' h cp b:a file
is 'with mode and time' "$(stat -c '%a %Y' file) $(cat file)" "640 $(stat -c %Y tree/a) a"
echo b >other
ok 'over another' h cp other b:a
ok 'and back over another' h cp b:a file
is 'is replaced' "$(cat file)" b
ok 'a file into a directory' h cp b:a back
is 'gets its name too' "$(cat back/a)" b
ln -s file alias
ok 'to a link to a file' h cp b:a alias
is 'which stays' "$(readlink alias)" file
ok 'a link out' h cp b:/tmp/tree/abs .
is 'is a link' "$(readlink abs)" /etc/passwd
ok 'a name with a colon' h cp b:a ./c:d
ok 'and in' h cp ./c:d b:/tmp
is 'is a file' "$(h run b -- cat '/tmp/c:d')" b
head -c 70000000 /dev/urandom >bulk
ok 'in bulk' h cp bulk b:/root/bulk
ok 'and out' h cp b:/root/bulk bulk2
is 'to the byte' "$(sha1sum <bulk2)" "$(sha1sum <bulk)"
chmod 4755 bulk2
ok 'setuid, in' h cp bulk2 b:/root/bulk
is 'is not kept' "$(h run b -- stat -c %a:%u /root/bulk)" 755:0
h run b -- chmod 6777 /root/bulk
ok 'setuid, out' h cp b:/root/bulk bulk2
is 'is not either' "$(stat -c %a:%u bulk2)" 777:0
is 'a link to a directory inside is gone through' \
	"$(mkdir -p sys/bin; echo x >sys/bin/hutch-test; h cp sys/. b:/ 2>err; h run b -- readlink /bin)" usr/bin
is 'options of tar that the sandbox has do no harm' "$(exec 3<>"$T/new"
	echo '{"name":"o","env":{"TAR_OPTIONS":"--exclude=a"},"exec":{"timeout_s":0.001}}' >&3
	h cp tree o: && h cp o:tree o && cat o/a)" a
is 'and nothing is left of it' "$(find "$T/b/exec" "$T/o/exec" -mindepth 1 -type d)" ''
h rm o

# What goes wrong: 125, and why.
while IFS='|' read -r what regex words; do
	# shellcheck disable=SC2086
	h cp $words >out 2>err
	is "$what" "$? $(wc -c <out)" '125 0'
	like 'and says so' "$(cat err)" "$regex"
done <<-'END'
	nothing there|nope: Cannot stat: No such file|b:nope x
	nothing here|'nope': No such file|nope b:
	no such sandbox|'zz'|zz:a x
	no sandbox|BOX:PATH|a x
	two sandboxes|BOX:PATH|b:a b:x
	one name|two names|b:a
	no directory here|'none/'|b:a none/x
	no directory inside|/none|other b:/none/x
	a file to a directory that is not there|no such directory|other b:/none/
	a file as a directory, here|Not a directory|b:a newdir/
	a directory over a file|'file'.*Not a directory|b:/tmp/tree file
	a device|neither a file nor a directory|b:a /dev/null
	what is no file|neither a file, a directory nor a link|b:/dev/null dev
END
no 'nothing was made of it' test -e newdir
mkfifo tree/fifo
h cp tree b:/tmp/with 2>err
is 'a fifo in' "$? $(grep -c "'tree/fifo' is neither" err)" '125 1'
is 'the rest is copied' "$(h run b -- cat /tmp/with/a)" a
rm tree/fifo
mount -t tmpfs -o size=1m none held
h cp b:/root/bulk held/bulk 2>err
is 'a full disk' "$? $(grep -c 'No space left' err)" '125 1'
is 'leaves no half file' "$(ls -A held)" ''
umount held

# Signals: nothing half is left, and no command.
for sig in INT TERM HUP; do
	mkdir "sig$sig"
	h run b -- sh -c 'mkdir -p /root/slow; truncate -s 3G /root/slow/big'
	env --default-signal=INT "$BUILD/hutch" cp b:/root/slow "sig$sig" </dev/null >out 2>err &
	pid=$!
	wait_for 5 eval "ls -A 'sig$sig/slow' | grep -q ."
	kill -s $sig $pid
	ok "$sig ends it" gone $pid 5
	wait $pid
	is 'as it ends programs' $? $((128 + $(kill -l $sig)))
	is 'no half file' "$(ls -A "sig$sig/slow")" ''
	ok 'no command' wait_for 5 eval "[ -z \"\$(find '$T/b/exec' -mindepth 1 -type d)\" ]"
	ok 'no tar' wait_for 5 eval "! pgrep -x tar"
done
"$BUILD/hutch" cp b:/root/slow sigKILL </dev/null >out 2>err &
pid=$!
wait_for 5 test -e sigKILL
kill -KILL $pid
ok 'also after kill -9' wait_for 5 eval "! pgrep -x tar"
h rm -f b
box b

# What the sandbox does to the tar that runs in it.
out b 'mkdir -p /root/slow; truncate -s 3G /root/slow/big' >/dev/null
tar_in() { wait_for 5 test -e "$1/slow" && wait_for 5 pgrep -x tar >/dev/null && pgrep -x tar; }
mkdir torn
"$BUILD/hutch" cp b:/root/slow torn </dev/null >out 2>err &
pid=$!
kill -KILL "$(tar_in torn)"
wait $pid
is 'it is killed' "$? $(grep -c 'ends within a file' err) $(find torn/slow -type f)" '125 1 '
mkdir mixed
"$BUILD/hutch" cp b:/root/slow mixed </dev/null >out 2>err &
pid=$!
tar_in mixed >/dev/null
python3 -c 'import io, sys, tarfile
t = tarfile.open(fileobj=sys.stdout.buffer, mode="w|")
for name in "../evil", "/tmp/evil", "slow/../../evil":
	i = tarfile.TarInfo(name); i.size = 4
	t.addfile(i, io.BytesIO(b"evil"))
t.close()' >evil.tar
h cp evil.tar b:/root/
h run b -- sh -c 'p=$(pgrep -x tar) && kill -STOP $p && cat /root/evil.tar >/proc/$p/fd/1; kill -KILL $p'
wait $pid
is 'others write into its stream' "$? $(grep -c 'hutch: cp:' err)" '125 1'
is 'nothing is written elsewhere' "$(find . /tmp/evil -name 'evil' 2>/dev/null)" ''

# Progress: on a terminal, behind the first second.
h run b -- truncate -s 300M /root/big
is 'no progress for what is quick' "$(script -qec "$BUILD/hutch cp b:/root/slow/../a quick" /dev/null </dev/null | grep -c MB)" 0
mkdir slowly
script -qec "$BUILD/hutch cp b:/root/slow slowly" /dev/null </dev/null >out &
pid=$!
tar=$(tar_in slowly)
kill -STOP "$tar"
sleep 1.2
kill -CONT "$tar"
like 'progress for what takes longer' "$(wait_for 10 grep -a MB out; tr '\r' '\n' <out)" '[0-9.]+ MB  slow/big'
pkill -INT -x hutch
wait $pid
like 'and its line is cleared' "$(tail -c 100 out | tr '\r' '\n')" $'\e\\[K'
stop_hutchd
