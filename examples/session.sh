#!/bin/sh
# A sandbox for the length of a script: compile a C program in it and run it.
#
# hutchd must run; HUTCH says where, if it is not at /run/hutch.
set -eu
tree=${HUTCH:-/run/hutch}

# mktemp finds a free name. The trap removes the sandbox, processes and all.
box=$(mktemp -d "$tree/session-XXXXXX")
trap 'rmdir "$box"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# One handle for all commands: what is written is a command, what is read is its name.
exec 3<>"$box/exec/new"

echo '{"cmd": ["sh", "-c", "cat > hello.c && cc -Wall -o hello hello.c"], "timeout_s": 60}' >&3
read -r n <&3
cat > "$box/exec/$n/stdin" <<'END'
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	printf("hello from process %d, user %d\n", (int)getpid(), (int)getuid());
	return 0;
}
END

# `code` waits for the end, and says what $? would say.
code=$(cat "$box/exec/$n/code")
if [ "$code" != 0 ]; then
	echo "the compiler failed:" >&2
	cat "$box/exec/$n/stderr" >&2
	exit "$code"
fi

echo './hello' >&3
read -r n <&3
cat "$box/exec/$n/stdout"
exit "$(cat "$box/exec/$n/code")"
