/* skeleton.c - what a generated root filesystem has of its own
 *
 * The same table makes two things.  The image's lower directory, always.  And the upper
 * directory of a layer where the lower one cannot be mounted with ids mapped: what is only in
 * the lower one belongs to nobody there, and could not be written to.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "sandbox/launch-internal.h"

static const char passwd_text[] = "root:x:0:0:root:/root:/bin/bash\n"
				  "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
				  "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
				  "sys:x:3:3:sys:/dev:/usr/sbin/nologin\n"
				  "sync:x:4:65534:sync:/bin:/bin/sync\n"
				  "games:x:5:60:games:/usr/games:/usr/sbin/nologin\n"
				  "man:x:6:12:man:/var/cache/man:/usr/sbin/nologin\n"
				  "lp:x:7:7:lp:/var/spool/lpd:/usr/sbin/nologin\n"
				  "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
				  "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
				  "backup:x:34:34:backup:/var/backups:/usr/sbin/nologin\n"
				  "user:x:1000:1000:user:/tmp:/bin/bash\n"
				  "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";

static const char group_text[] = "root:x:0:\ndaemon:x:1:\nbin:x:2:\nsys:x:3:\nadm:x:4:\ntty:x:5:\n"
				 "disk:x:6:\nlp:x:7:\nmail:x:8:\nman:x:12:\nsudo:x:27:\n"
				 "audio:x:29:\nwww-data:x:33:\nbackup:x:34:\nshadow:x:42:\n"
				 "utmp:x:43:\nvideo:x:44:\nstaff:x:50:\ngames:x:60:\n"
				 "users:x:100:user\nuser:x:1000:\nnogroup:x:65534:\n";

static const char resolv_text[] =
	"# This sandbox has the loopback interface only: there is no name server to ask.\n";

static const char nsswitch_text[] = "passwd: files\ngroup: files\nshadow: files\ngshadow: files\n"
				    "hosts: files dns\nnetworks: files\nprotocols: files\n"
				    "services: files\nethers: files\nrpc: files\n";

/* Parents before children. */
static const struct entry {
	const char *path;
	mode_t mode;      /* S_IFDIR, S_IFREG or S_IFLNK with permissions */
	const char *text; /* of a file, or a link's target */
} entries[] = {
	{ "dev", S_IFDIR | 0755, NULL },
	{ "proc", S_IFDIR | 0555, NULL },
	{ "sys", S_IFDIR | 0555, NULL },
	{ "tmp", S_IFDIR | 01777, NULL },
	{ "usr", S_IFDIR | 0755, NULL },
	{ "run", S_IFDIR | 0755, NULL },
	{ "run/hutch", S_IFDIR | 0711, NULL },
	{ "run/lock", S_IFDIR | 01777, NULL },
	{ "root", S_IFDIR | 0700, NULL },
	{ "home", S_IFDIR | 0755, NULL },
	{ "opt", S_IFDIR | 0755, NULL },
	{ "srv", S_IFDIR | 0755, NULL },
	{ "mnt", S_IFDIR | 0755, NULL },
	{ "media", S_IFDIR | 0755, NULL },
	{ "var", S_IFDIR | 0755, NULL },
	{ "var/cache", S_IFDIR | 0755, NULL },
	{ "var/lib", S_IFDIR | 0755, NULL },
	{ "var/log", S_IFDIR | 0755, NULL },
	{ "var/mail", S_IFDIR | 0775, NULL },
	{ "var/spool", S_IFDIR | 0755, NULL },
	{ "var/tmp", S_IFDIR | 01777, NULL },
	{ "var/run", S_IFLNK, "/run" },
	{ "var/lock", S_IFLNK, "/run/lock" },
	{ "etc", S_IFDIR | 0755, NULL },
	{ "etc/passwd", S_IFREG | 0644, passwd_text },
	{ "etc/group", S_IFREG | 0644, group_text },
	{ "etc/resolv.conf", S_IFREG | 0644, resolv_text },
	{ "etc/nsswitch.conf", S_IFREG | 0644, nsswitch_text },
	{ "etc/mtab", S_IFLNK, "../proc/self/mounts" },
};

static int make_entry(int dir, const struct entry *e, struct err *err)
{
	int r;

	if (S_ISDIR(e->mode)) {
		/* The umask may be anything: the mode is set, not asked for. */
		if (mkdirat(dir, e->path, 0700) < 0 ||
		    fchmodat(dir, e->path, e->mode & 07777, 0) < 0)
			return err_set(err, errno, "make '%s'", e->path);
		return 0;
	}
	if (S_ISLNK(e->mode)) {
		if (symlinkat(e->text, dir, e->path) < 0)
			return err_set(err, errno, "make '%s'", e->path);
		return 0;
	}
	r = file_write(dir, e->path, 0600, e->text, strlen(e->text), err);
	if (r < 0)
		return r;
	if (fchmodat(dir, e->path, e->mode & 07777, 0) < 0)
		return err_set(err, errno, "make '%s'", e->path);
	return 0;
}

int skeleton_make(int dir, const struct id_range *ids, struct err *err)
{
	for (unsigned i = 0; i < ARRAY_SIZE(entries); i++) {
		const struct entry *e = &entries[i];
		int r = make_entry(dir, e, err);

		if (r < 0)
			return r;
		/* Without root there is one id only, and all is ours. */
		if (ids && geteuid() == 0 &&
		    fchownat(dir, e->path, ids->base, ids->base, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(err, errno, "give '%s' to %u", e->path, ids->base);
	}
	return 0;
}
