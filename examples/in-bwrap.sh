#!/bin/sh
# A program in a container gets one sandbox, and nothing else of the tree: its directory is bound
# into the container. Here the container is bubblewrap's, and the program a shell script that
# knows of /box and needs no client, no socket and no rights.
set -eu
tree=${HUTCH:-/run/hutch}
box=$(mktemp -d "$tree/bwrap-XXXXXX")
trap 'rmdir "$box"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

bwrap --unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib \
	--symlink usr/lib64 /lib64 --proc /proc --dev /dev --bind "$box" /box /bin/sh -eu -c '
	exec 3<>/box/exec/new
	echo "tr a-z A-Z; exit 4" >&3
	read -r n <&3
	echo "from a container" > /box/exec/$n/stdin
	echo "it said: $(cat /box/exec/$n/stdout), and $(cat /box/exec/$n/code)"
	echo "all that there is of the tree: $(cat /proc/mounts | grep -c "^hutch\|fuse")"
'
