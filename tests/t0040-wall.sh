#!/bin/bash
# What a command sees of the world, and what it must not.
. "$(dirname "$0")/lib.sh"
need root fuse userns jq python3

secret=hutch-secret-$$
places=(/root /home /var/tmp /tmp /opt /srv /etc /var/lib /run /mnt)
for d in "${places[@]}"; do [ -d "$d" ] && echo "$secret" >"$d/$secret"; done
hide() { for d in "${places[@]}"; do rm -f "$d/$secret"; done; }
at_end+=(hide)

export SECRET_OF_THE_HOST=$secret
start_hutchd
unset SECRET_OF_THE_HOST
box b
box c
in_b() { out b "$@"; }

# Processes.
sleep 5432 & other=$!
is 'its process 1 is ours, not the host'"'s" "$(in_b 'tr "\0" " " < /proc/1/cmdline | grep -Ec "bash|init|systemd|hutchd "')" 0
n=$(node c 'exec sleep 5433')
wait_for 5 status_is c "$n" running
is 'no process of the host or of another sandbox' "$(in_b 'cat /proc/[0-9]*/cmdline | tr "\0" "\n" | grep -Ec "^543[23]$"')" 0
ok 'there are few processes' test "$(in_b 'ls -d /proc/[0-9]* | wc -l')" -le 6
kill $other
is 'process 1 survives kill -9 1 and kill -15 -1' "$(in_b 'kill -9 1; kill -15 1; trap "" TERM; kill -15 -1; echo alive')" alive
run b 'kill -15 0; sleep 1'
is 'kill -15 0 ends the command only' "$(status_of b "$N") $(in_b 'echo alive')" 'signaled SIGTERM alive'
in_b 'for i in $(seq 60); do (sleep 0.05 &) ; done; sleep 0.5' >/dev/null
is 'process 1 reaps orphans' "$(in_b 'sleep 0.3; grep -l "^State:.Z" /proc/[0-9]*/status | wc -l')" 0

# Names and ids.
is 'hostname is the id' "$(in_b 'uname -n')" b
is 'user 0 inside' "$(in_b 'id -u; id -g; id -un' | tr '\n' ' ')" '0 0 root '
like 'a range of its own' "$(in_b 'cat /proc/self/uid_map')" '^ *0 +[1-9][0-9]* +[0-9]+$'
no 'another one for another sandbox' test "$(in_b 'cat /proc/self/uid_map')" = "$(out c 'cat /proc/self/uid_map')"
host_uid=$(for d in /proc/[0-9]*; do [ "$(tr '\0' ' ' <"$d/cmdline" 2>/dev/null)" = 'sleep 5433 ' ] && awk '/^Uid/ { print $2 }' "$d/status"; done)
ok "host root is not mapped ($host_uid)" test "${host_uid:-0}" -ge 65536
for ns in user mnt pid ipc uts net; do
	no "namespace $ns is its own" test "$(in_b "readlink /proc/self/ns/$ns")" = "$(readlink /proc/self/ns/$ns)"
	no "and not that of another sandbox" test "$(in_b "readlink /proc/self/ns/$ns")" = "$(out c "readlink /proc/self/ns/$ns")"
done

# Network.
is 'only lo' "$(in_b 'sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d " "')" lo
is 'and it is up' "$(in_b '["python3","-c","import socket\ns=socket.socket(); s.bind((\"127.0.0.1\",0)); s.listen()\nc=socket.create_connection(s.getsockname()); c.send(b\"hi\"); print(s.accept()[0].recv(9))"]')" "b'hi'"
like 'nothing else can be reached' "$(in_b '["python3","-c","import socket\ntry: socket.create_connection((\"192.0.2.1\",80),3); print(1)\nexcept OSError as e: print(e.strerror)"]')" 'unreachable'
like 'resolv.conf says so' "$(in_b 'cat /etc/resolv.conf')" '^#'

# Files of the host.
is 'no file of the host is found' "$(in_b "find / -xdev \\( -path /proc -o -path /usr \\) -prune -o -name $secret -print; ls -a /root /home /var/tmp /tmp /opt /srv /run /mnt | grep $secret" 60)" ''
is 'nor its environment' "$(in_b 'cat /proc/[0-9]*/environ | tr "\0" "\n" | grep -c SECRET_OF')" 0
is 'nor the tree or the state directory' "$(in_b "ls -d $T $S $HUTCH_TEST_DIR /var/lib/hutch 2>/dev/null")" ''
is 'nor its mounts' "$(in_b "grep -Ec '$HUTCH_TEST_DIR/t|fuse' /proc/self/mounts")" 0
unlike 'nor its passwords' "$(in_b 'cat /etc/shadow /etc/gshadow 2>&1')" '\$[0-9y]'
is 'home directories are empty' "$(in_b 'ls -A /root /home /tmp /opt | grep -v : | grep -v "^$"')" ''
is 'no block device, no fuse' "$(in_b 'find /dev -type b; ls /dev | grep -Ex "fuse|kmsg|mem|kvm|sda|vda|loop.*|input|disk"')" ''
for d in null zero full random urandom tty; do ok "/dev/$d is there" test "$(in_b "test -c /dev/$d && echo yes")" = yes; done
is '/dev/null swallows, /dev/zero gives' "$(in_b 'echo x > /dev/null; head -c 3 /dev/zero | wc -c')" 3
is 'descriptors 0, 1 and 2 only' "$(in_b '["python3","-c","import os; print(sorted(int(f) for f in os.listdir(\"/proc/self/fd\"))[:4])"]')" '[0, 1, 2, 3]'

# What is writable.
for d in /root /home /tmp /var /run /opt /var/tmp /dev/shm; do
	is "$d is writable" "$(in_b "echo x > $d/probe && cat $d/probe && rm $d/probe")" x
done
for f in /usr/probe /usr/bin/probe /bin/probe /lib/probe /usr/bin/env /proc/sys/kernel/hostname /proc/sysrq-trigger; do
	no "$f is not" test "$(in_b "(echo x >> $f) 2>/dev/null && echo written")" = written
done
no 'nothing came to the host' test -e /usr/bin/probe
echo 'echo private > /root/mark; echo private > /tmp/mark' >"$T/b/exec/new"
is 'another sandbox has other files' "$(out c 'ls /root/mark /tmp/mark 2>&1 | grep -c private')" 0

# Privileges.
like 'no new privileges' "$(in_b 'grep NoNewPrivs /proc/self/status')" '1$'
caps=$(in_b 'sed -n s/^CapEff:.//p /proc/self/status')
for bit in 12:NET_ADMIN 16:SYS_MODULE 17:SYS_RAWIO 19:SYS_PTRACE 21:SYS_ADMIN 22:SYS_BOOT 25:SYS_TIME 27:MKNOD; do
	is "without CAP_${bit#*:}" $(((0x${caps:-0} >> ${bit%:*}) & 1)) 0
done
is 'the bounding set has no more' "$(in_b 'sed -n s/^CapBnd:.//p /proc/self/status')" "$caps"
for c in 'mount -t tmpfs x /mnt' 'mount -t proc x /proc' 'umount /proc' 'mount -o remount,rw /usr' 'chroot / true && unshare -m true' \
	'mknod /root/d b 8 0' 'hostname other' 'dmesg' 'date -s 2020-01-01'; do
	is "refused inside: $c" "$(in_b "($c) >/dev/null 2>&1 && echo succeeded")" ''
done

# The ordinary surroundings.
is 'environment and place' "$(in_b 'echo "$HOME|$PATH|$LANG|$(pwd)|$(umask)|$(ulimit -n)"')" \
	'/root|/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin|C.UTF-8|/root|0022|1024'
is 'no other variables of the host' "$(in_b '/usr/bin/env' | grep -Ev '^(HOME|PATH|LANG|PWD|_|SHLVL|USER|LOGNAME|SHELL|TERM|HOSTNAME|OLDPWD)=')" ''
is 'signals are as they should be' "$(in_b 'grep -E "^Sig(Ign|Blk)" /proc/self/status | cut -f2 | tr "\n" " "')" '0000000000000000 0000000000000000 '
dangling() { echo 'for d in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do find $d/ -maxdepth 1 -xtype l; done | sort'; }
is 'no command in PATH dangles that does not on the host' "$(comm -13 <(sh -c "$(dangling)" 2>/dev/null) <(in_b "$(dangling)" 60))" ''
is 'awk and the like' "$(in_b 'echo 3 4 | awk "{ print \$1 * \$2 }"; which awk >/dev/null && echo found' | tr '\n' ' ')" '12 found '
like 'hosts has the name and localhost' "$(in_b 'cat /etc/hosts' | tr -s '\n\t' ' ')" 'localhost.* b( |$)'
is 'passwd is generated' "$(in_b 'cut -d: -f1,3,6 /etc/passwd | head -1')" 'root:0:/root'
ok 'its /tmp is limited' test "$(in_b 'df -k --output=size /tmp | tail -1')" -le 262144
stop_hutchd
