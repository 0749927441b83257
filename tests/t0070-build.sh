#!/bin/bash
# Real work: a C program of several files, with the machine's gcc and make.
. "$(dirname "$0")/lib.sh"
need root fuse userns gcc make tar

mkdir -p "$W/src/lib"
cat >"$W/src/main.c" <<'X'
#include <stdio.h>
#include <stdlib.h>
#include "lib/sum.h"
int main(int argc, char **argv)
{
	long total = 0;
	for (int i = 1; i < argc; i++)
		total = sum(total, atol(argv[i]));
	printf("%ld %s\n", total, label());
	return argc == 1 ? 3 : 0;
}
X
echo 'long sum(long, long); const char *label(void);' >"$W/src/lib/sum.h"
printf '#include "sum.h"\nlong sum(long a, long b) { return a + b; }\n' >"$W/src/lib/sum.c"
printf '#include "sum.h"\n#include <math.h>\nconst char *label(void) { return sqrt(2) > 1 ? "label" : ""; }\n' >"$W/src/lib/label.c"
cat >"$W/src/Makefile" <<'X'
CFLAGS = -O2 -Wall -Werror
prog: main.o lib/sum.o lib/label.o
	$(CC) $^ -o $@ -lm
main.o lib/sum.o lib/label.o: lib/sum.h
clean:
	rm -f prog *.o lib/*.o
X

start_hutchd
box b
n=$(node b 'mkdir -p /root/src && tar -xf - -C /root/src && cd /root/src && make -j2 && ./prog 1 2 39')
x=$T/b/exec/$n
ok 'files go in by tar over stdin' timeout 20 bash -c "tar -C $W/src -cf - . > $x/stdin"
is 'it compiles' "$(timeout 120 cat "$x/code")" 0
note "$(timeout 5 cat "$x/stderr" | head -20)"
is 'and runs' "$(timeout 5 tail -n 1 "$x/stdout")" '42 label'
like 'the compiler was seen' "$(timeout 5 cat "$x/stdout")" 'cc .*-c -o lib/sum\.o'
is 'the program is kept for the next command' "$(out b '["/root/src/prog","20","22"]')" '42 label'
run b '/root/src/prog'
is 'with its exit status' "$C" 3
is 'make sees that nothing is to be done' "$(out b 'make -C /root/src | grep -c "up to date"')" 1
is 'a header changes' "$(out b 'cd /root/src && sleep 1.1 && touch lib/sum.h && make | grep -c -- "-c -o"' 120)" 3
run b 'cd /root/src && echo "int broken(" >> main.c && make' 60
is 'an error is an exit status' "$C" 2
like 'and on stderr' "$(timeout 5 cat "$X/stderr")" 'error'
run b 'tar -C /root/src -cf - lib'
is 'files come out by tar over stdout' "$(timeout 10 tar -xOf "$X/stdout" lib/sum.h)" "$(cat "$W/src/lib/sum.h")"
n=$(node b 'cc -x c - -o /tmp/from-stdin && /tmp/from-stdin')
printf '#include <stdio.h>\nint main(void) { puts("from stdin"); }\n' >"$T/b/exec/$n/stdin"
is 'a program on stdin of the compiler' "$(timeout 60 cat "$T/b/exec/$n/stdout")" 'from stdin'
if command -v g++ >/dev/null; then
	n=$(node b 'g++ -x c++ - -o /tmp/cxx 2>&1 && /tmp/cxx')
	printf '#include <iostream>\nint main() { std::cout << "from C++\\n"; }\n' >"$T/b/exec/$n/stdin"
	is 'the same in C++' "$(timeout 60 cat "$T/b/exec/$n/stdout" | tail -n 1)" 'from C++'
else
	skip 'the same in C++' 'no g++'
fi
stop_hutchd
