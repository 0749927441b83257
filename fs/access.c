#include "fs/access.h"

#include <errno.h>
#include <fcntl.h>

bool access_in_group(const struct caller *who, gid_t gid)
{
	return who->gid == gid || (who->in_group && who->in_group(who, gid));
}

bool access_allowed(const struct stat *st, const struct caller *who, unsigned want)
{
	unsigned owner = (st->st_mode >> 6) & 7, group = (st->st_mode >> 3) & 7,
		 other = st->st_mode & 7;

	if (who->uid == 0)
		return true;
	/* The first class that fits decides, also if it gives less than a later one. */
	if (who->uid == st->st_uid)
		return (owner & want) == want;
	/* Asking for groups is not free: ask only if the answer matters. */
	if ((group & want) == (other & want))
		return (group & want) == want;
	return ((access_in_group(who, st->st_gid) ? group : other) & want) == want;
}

unsigned access_of_flags(int flags)
{
	switch (flags & O_ACCMODE) {
	case O_RDONLY:
		return ACCESS_READ | (flags & O_TRUNC ? ACCESS_WRITE : 0);
	case O_WRONLY:
		return ACCESS_WRITE;
	default:
		return ACCESS_READ | ACCESS_WRITE;
	}
}

int access_change_dir(const struct stat *dir, const struct caller *who, struct err *err)
{
	if (who->uid == ACCESS_NOBODY)
		return err_say(err, EPERM,
			       "user %d is what unmapped users look like, and nobody's identity",
			       ACCESS_NOBODY);
	if (!access_allowed(dir, who, ACCESS_WRITE | ACCESS_EXEC))
		return err_say(err, EACCES, "user %u may not make or remove anything here",
			       (unsigned)who->uid);
	return 0;
}
