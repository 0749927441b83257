/* hutch_doctor_state.c - the directory in which a hutchd of this user would keep its sandboxes */
#include "tools/hutch_doctor.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/filesystem.h"
#include "tools/place.h"

/* hutchd makes what is missing of it: so the last directory of `path` that is there, to which
 * `path` is cut down. */
static int open_last(char *path)
{
	for (;;) {
		int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
		size_t len = strlen(path);

		if (fd >= 0 || errno != ENOENT || len == 1)
			return fd < 0 ? -errno : fd;
		while (path[len - 1] == '/')
			len--;
		while (path[len - 1] != '/')
			len--;
		path[len > 1 ? len - 1 : 1] = '\0';
	}
}

void doctor_look_state(struct finding *f)
{
	auto_free char *path = NULL, *last = NULL;
	auto_close int fd = -1;
	char type[FILESYSTEM_TYPE_LEN] = "of a kind that is not known";
	int r = place_find(&place_state, f->asked->state_dir, &path, NULL);

	last = path ? strdup(path) : NULL;
	if (!last) {
		FOUND(f, FINDING_NOTE,
		      "neither $XDG_STATE_HOME nor $HOME says where a hutchd of yours would keep "
		      "its sandboxes: give it a --state-dir");
		return;
	}
	fd = open_last(last);
	r = fd < 0 ? fd : filesystem_has_holes(fd);
	if (fd >= 0)
		(void)filesystem_of(fd, type);
	if (r < 0)
		FOUND(f, FINDING_MISSING,
		      "no file can be made in %s (%s), so hutchd cannot keep sandboxes in %s: let "
		      "this user write there, or give hutchd another --state-dir",
		      last, strerror(-r), path);
	else if (r == 0)
		FOUND(f, FINDING_NOTE,
		      "%s is on a file system (%s) that gives no part of a file back: output over "
		      "its output_limit takes disk, and counts for limits.output, until its "
		      "command "
		      "is removed; ext4, xfs, btrfs and tmpfs do",
		      path, type);
	else
		FOUND(f, FINDING_OK,
		      "%s%s can be written, on a file system (%s) that gives parts of files back",
		      path, strcmp(path, last) == 0 ? "" : ", which hutchd would make,", type);
}
