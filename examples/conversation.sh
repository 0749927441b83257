#!/bin/sh
# A conversation: one process that is asked, answers, and is asked again.
#
# An open handle on `stdin` keeps it from ending, and a reader of `stdout` waits
# for what comes next. Here a shell is a calculator that adds up what it is told.
set -eu
tree=${HUTCH:-/run/hutch}
box=$(mktemp -d "$tree/conversation-XXXXXX")
trap 'rmdir "$box"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

exec 3<>"$box/exec/new"
echo 'sum=0; while read -r number; do sum=$((sum + number)); echo "$sum"; done' >&3
read -r n <&3

exec 4>"$box/exec/$n/stdin"
exec 5<"$box/exec/$n/stdout"
for number in 3 4 35; do
	echo "$number" >&4
	read -r sum <&5
	echo "told $number, it says $sum"
done

# Closing the handle is the end of its input; then it ends by itself.
exec 4>&-
echo "exit code $(cat "$box/exec/$n/code")"
