/* caps.c - what user 0 of a sandbox may do in it
 *
 * After execve() a process of user 0 holds: bounding set | inheritable set.  The
 * bounding set is the table; CAP_SYS_PTRACE is inheritable only, so that the agent
 * gets it (why: agent/main.c) and, having cleared its inheritable set, none of its
 * commands does.
 * Under no_new_privs an execve() can give no more than was permitted before, so the
 * permitted set here is both.
 */
#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/launch-internal.h"

/* All of them count inside the sandbox's user namespace only. */
static const unsigned char caps_kept[] = {
	CAP_CHOWN,   CAP_DAC_OVERRIDE, CAP_FOWNER,  CAP_FSETID,           CAP_KILL,
	CAP_SETGID,  CAP_SETUID,       CAP_SETPCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT,
	CAP_SETFCAP, CAP_AUDIT_WRITE,
};

static int clear_ambient(void)
{
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ? -errno : 0;
}

int caps_drop(struct child *c)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };
	uint64_t kept = 0, agent = UINT64_C(1) << CAP_SYS_PTRACE;

	(void)c;
	for (unsigned i = 0; i < ARRAY_SIZE(caps_kept); i++)
		kept |= UINT64_C(1) << caps_kept[i];
	for (unsigned i = 0; i < 2; i++) {
		data[i].permitted = data[i].effective = (uint32_t)((kept | agent) >> (32 * i));
		data[i].inheritable = (uint32_t)(agent >> (32 * i));
	}
	/* Before the bounding set: nothing outside of that can become inheritable any more. */
	if (syscall(SYS_capset, &head, data) < 0)
		return -errno;
	/* Up to the kernel's last one, which may be newer than our headers: EINVAL. */
	for (unsigned cap = 0; cap < 64; cap++)
		if (!(kept >> cap & 1) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return errno == EINVAL ? clear_ambient() : -errno;
	return clear_ambient();
}
