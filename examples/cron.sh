#!/bin/sh
# A job for cron: runs once a day however often it is started, says nothing when all is well, and
# prints the output, for cron to mail, when it is not.
#
#	17 3 * * *  root  examples/cron.sh nightly /etc/nightly.sh
#
# The sandbox stays from day to day, and so do the results: ls /run/hutch/nightly/exec
set -eu
tree=${HUTCH:-/run/hutch}
name=$1
script=$2
day=${DAY:-$(date +%F)}
box=$tree/$name

mkdir "$box" 2>/dev/null || [ -d "$box" ]
echo start > "$box/ctl" # after the machine was started anew; else nothing

# A node with a name of our own. Who makes it runs the job; a second start finds it there.
job=$box/exec/day-$day
mkdir "$job" 2>/dev/null || exit 0
echo 'set timeout_s 3600' > "$job/ctl"
echo 'set stdin null' > "$job/ctl"
cat "$script" > "$job/cmd"

code=$(cat "$job/code")
if [ "$code" != 0 ]; then
	echo "$name of $day: $(cat "$job/status")"
	cat "$job/stdout" "$job/stderr"
fi
exit "$code"
