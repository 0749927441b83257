/* masks.c - what of /proc tells about the host, or changes it, is hidden or read-only
 *
 * Everything is mounted from descriptors of ours, onto names in a procfs that was mounted a
 * moment ago: nothing of the sandbox's is on the way (CVE-2025-31133, -52565, -52881).
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/launch-internal.h"

enum mask_kind { MASK_FILE, MASK_DIR, MASK_READ_ONLY };

/* Those that this kernel does not have are passed over. */
static const struct mask {
	const char *name;
	enum mask_kind kind;
} masks[] = {
	{ "acpi", MASK_DIR },
	{ "asound", MASK_DIR },
	{ "scsi", MASK_DIR },
	{ "kcore", MASK_FILE },
	{ "keys", MASK_FILE },
	{ "latency_stats", MASK_FILE },
	{ "timer_list", MASK_FILE },
	{ "timer_stats", MASK_FILE },
	{ "sched_debug", MASK_FILE },
	{ "interrupts", MASK_FILE },
	{ "bus", MASK_READ_ONLY },
	{ "fs", MASK_READ_ONLY },
	{ "irq", MASK_READ_ONLY },
	{ "sys", MASK_READ_ONLY },
	{ "sysrq-trigger", MASK_READ_ONLY },
};

static int open_mask(const struct child *c, int proc, const struct mask *m)
{
	unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
	int fd = -1;

	if (m->kind == MASK_FILE)
		fd = open_tree(c->null, "", flags | AT_EMPTY_PATH);
	else if (m->kind == MASK_DIR)
		fd = open_tree(c->staging, STAGING_EMPTY, flags);
	else
		fd = open_tree(proc, m->name, flags | AT_SYMLINK_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

int masks_apply(struct child *c)
{
	auto_close int proc = root_dir(c->root, "proc", 0555);

	if (proc < 0)
		return proc;
	for (unsigned i = 0; i < ARRAY_SIZE(masks); i++) {
		const struct mask *m = &masks[i];
		uint64_t attrs = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC |
				 MOUNT_ATTR_RDONLY;
		int r;

		/* /dev/null must stay a device that can be written. */
		if (m->kind == MASK_FILE)
			attrs = 0;
		if (faccessat(proc, m->name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		r = attach(&(struct attach){ open_mask(c, proc, m), proc, m->name, attrs });
		if (r < 0)
			return r;
	}
	return 0;
}
