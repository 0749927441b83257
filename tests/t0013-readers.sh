#!/bin/bash
# Programs of all kinds as readers of results and streams, and as partners in a conversation.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3 perl node dash

start_hutchd
box b
run b 'for i in $(seq 3000); do echo "line $i"; done; echo problem >&2; exit 3'
want=$(for ((i = 1; i <= 3000; i++)); do echo "line $i"; done | md5sum)

readers=(
	'cat %%' 'dash -c "cat %%"' 'cat < %%' 'echo "$(cat %%)"' 'echo "$(<%%)"'
	'cp %% $W/copy && cat $W/copy' 'cp -a %% $W/copy2 && cat $W/copy2' 'dd if=%% bs=7 status=none'
	'dd if=%% bs=1M status=none' 'tee < %%' 'head -n 5000 %%' 'tail -n +1 %%' 'tail -c 200000 %%'
	'tac %% | tac' 'sed -n p %%' 'awk 1 %%' 'grep "" %%' 'sort -V %%' 'tar -C $(dirname %%) -cf - stdout | tar -xOf -'
	'perl -ne "print" %%' 'perl -0777 -ne "print" %%'
	'python3 -c "print(open(\"%%\").read(), end=\"\")"'
	'python3 -c "print(open(\"%%\", \"rb\", 0).read().decode(), end=\"\")"'
	'python3 -c "for l in open(\"%%\"): print(l, end=\"\")"'
	'python3 -c "import pathlib; print(pathlib.Path(\"%%\").read_text(), end=\"\")"'
	'python3 -c "import shutil; shutil.copyfile(\"%%\", \"$W/copy3\")" && cat $W/copy3'
	'node -e "process.stdout.write(fs.readFileSync(\"%%\"))"'
	'node -e "fs.promises.readFile(\"%%\").then(d => process.stdout.write(d))"'
	'node -e "fs.createReadStream(\"%%\").pipe(process.stdout)"'
	'node -e "fs.readFile(\"%%\", (e, d) => process.stdout.write(d))"'
	'while IFS= read -r l; do echo "$l"; done < %%'
	'mapfile -t a < %%; printf "%s\n" "${a[@]}"'
	'jq -Rr . %%' 'xargs -d "\n" -n 1000 printf "%s\n" < %%'
)
export W
for r in "${readers[@]}"; do
	is "read by: $r" "$(timeout -k 1 30 bash -c "${r//%%/$X/stdout}" 2>&1 </dev/null | md5sum)" "$want"
done

is 'wc -c' "$(wc -c <"$X/stdout")" "$(for ((i = 1; i <= 3000; i++)); do echo "line $i"; done | wc -c)"
is 'stat agrees' "$(stat -c %s "$X/stdout")" "$(wc -c <"$X/stdout")"
ok 'st_blocks agrees' test $(($(stat -c '%b * %B' "$X/stdout"))) -ge "$(stat -c %s "$X/stdout")"
ok 'test -s is true' test -s "$X/stdout"
is 'read at the end is no error' "$(dd if="$X/stdout" bs=1 skip=1000000 status=none 2>&1 | wc -c)" 0
is 'from an offset' "$(timeout 5 tail -c +6 "$X/stdout" | head -n 2 | tr '\n' ' ')" '1 line 2 '
is 'cmp of two openings' "$(cmp "$X/stdout" "$X/stdout" 2>&1)" ''
is 'stderr is apart' "$(timeout 5 cat "$X/stderr")" problem
ok 'head that stops early' bash -c "timeout 5 head -n 1 $X/stdout | grep -qx 'line 1'"
is 'afterwards it is still whole' "$(timeout 5 cat "$X/stdout" | md5sum)" "$want"

is 'jq reads the result' "$(timeout 5 jq -r '.exit_code, .reason' "$X/result.json" | tr '\n' ' ')" '3 exited '
is 'python reads the result' "$(timeout 5 python3 -c "import json; print(json.load(open('$X/result.json'))['exit_code'])")" 3
is 'node reads the result' "$(timeout 5 node -e "console.log(JSON.parse(fs.readFileSync('$X/result.json')).exit_code)")" 3
is 'perl reads the result' "$(timeout 5 perl -0777 -ne 'print $1 if /"exit_code":\s*(-?\d+)/' "$X/result.json")" 3
is 'bash reads the code' "$(read -r c <"$X/code"; echo "$c")" 3
is 'exit $(cat code)' "$(bash -c "exit \$(timeout 5 cat $X/code)"; echo $?)" 3

# Whole round trips, written as their users would.
is 'Python: clone idiom, stdin, result' "$(timeout 20 python3 - "$T/b/exec" <<'X'
import json, os, sys
base = sys.argv[1]
fd = os.open(base + "/new", os.O_RDWR)
os.write(fd, b"tr a-z A-Z; exit 4")
name = os.read(fd, 100).decode().strip()
os.close(fd)
with open(f"{base}/{name}/stdin", "w") as f:
    f.write("from python\n")
print(open(f"{base}/{name}/stdout").read().strip(), json.load(open(f"{base}/{name}/result.json"))["exit_code"])
X
)" 'FROM PYTHON 4'
is 'Node: promises' "$(timeout 20 node - "$T/b/exec" <<'X'
const fsp = require('fs').promises, base = process.argv[2];
(async () => {
	const h = await fsp.open(base + '/new', 'r+');
	await h.write('tr a-z A-Z; exit 5');
	const { buffer, bytesRead } = await h.read(Buffer.alloc(100), 0, 100, null);
	const dir = base + '/' + buffer.toString('utf8', 0, bytesRead).trim();
	await h.close();
	await fsp.writeFile(dir + '/stdin', 'from node\n');
	const code = (await fsp.readFile(dir + '/code', 'utf8')).trim();
	console.log((await fsp.readFile(dir + '/stdout', 'utf8')).trim(), code);
})();
X
)" 'FROM NODE 5'
is 'Node: streams' "$(timeout 20 node - "$T/b/exec" <<'X'
const fs = require('fs'), base = process.argv[2];
const fd = fs.openSync(base + '/new', 'r+');
fs.writeSync(fd, 'sort -rn');
const b = Buffer.alloc(100), dir = base + '/' + b.toString('utf8', 0, fs.readSync(fd, b, 0, 100, null)).trim();
fs.closeSync(fd);
const into = fs.createWriteStream(dir + '/stdin');
for (let i = 0; i < 50000; i++) into.write(i + '\n');
into.end();
let size = 0, first = '';
fs.createReadStream(dir + '/stdout').on('data', d => { first = first || d.toString().split('\n')[0]; size += d.length; })
	.on('end', () => console.log(first, size));
X
)" '49999 288890'
is 'Perl' "$(timeout 20 perl - "$T/b/exec" <<'X'
my $base = shift;
open(my $f, "+<", "$base/new") or die; binmode $f;
syswrite($f, "tr a-z A-Z; exit 6") or die $!; sysread($f, my $name, 100) or die $!; chomp $name; close $f;
open(my $in, ">", "$base/$name/stdin") or die; print $in "from perl\n"; close $in;
open(my $out, "<", "$base/$name/stdout") or die; print <$out>;
open(my $code, "<", "$base/$name/code") or die; print <$code>;
X
)" $'FROM PERL\n6'
is 'dash' "$(cd "$T/b/exec" && timeout 20 dash -c 'exec 3<>new; echo "tr a-z A-Z; exit 7" >&3; read -r n <&3; echo from dash > $n/stdin; cat $n/stdout $n/code')" $'FROM DASH\n7'
is 'jq makes the request' "$(cd "$T/b/exec" && jq -nc --arg a "it's \"quoted\" \$HOME" '{cmd: ["printf", "%s", $a]}' >new && timeout 10 cat last/stdout)" "it's \"quoted\" \$HOME"
stop_hutchd
