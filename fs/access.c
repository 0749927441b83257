#include "fs/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#define GROUPS_FEW 64 /* more is rare */

int access_groups(const struct caller *who, gid_t **ret)
{
	int cap = GROUPS_FEW, n = 0;

	*ret = NULL;
	for (int i = 0; who->groups && i < 2; i++) {
		gid_t *list = reallocarray(*ret, (size_t)cap, sizeof(*list));

		if (!list) {
			free(*ret);
			*ret = NULL;
			return 0;
		}
		*ret = list;
		n = who->groups(who, list, cap);
		if (n <= cap)
			break;
		cap = n;
	}
	return n < cap ? n : cap;
}

bool access_in_group(const struct caller *who, gid_t gid)
{
	gid_t *list = NULL;
	bool found = who->gid == gid;

	if (found || !who->groups)
		return found;
	for (int i = access_groups(who, &list); i > 0 && !found; i--)
		found = list[i - 1] == gid;
	free(list);
	return found;
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
