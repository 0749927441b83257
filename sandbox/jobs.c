/* jobs.c - see jobs.h; all but the asking is done in the writer */
#include "sandbox/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "sandbox/store.h"
#include "sandbox/tree.h"

static int do_nothing(void *arg, int dirfd, const void *args, size_t len, int *ret_fd,
		      struct err *err)
{
	(void)arg;
	(void)dirfd;
	(void)args;
	(void)len;
	(void)ret_fd;
	(void)err;
	return 0;
}

/* An empty journal is as good as none to a restart; it is made last, and says that all the rest
 * is there. */
static int make_journal(int dir, struct err *err)
{
	auto_close int fd = openat(dir, "journal", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	return fd < 0 ? err_set(err, errno, "make 'journal'") : 0;
}

static int open_dir(int dirfd, const char *name, struct err *err)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? err_set(err, errno, "open '%s'", name) : fd;
}

static int fill(const struct image *image, int dir, const struct id_range *ids, struct err *err)
{
	int r;

	if (mkdirat(dir, "spool", 0700) < 0)
		return err_set(err, errno, "make the directory for its streams");
	r = layer_make(image, dir, "layer", ids, err);
	return r < 0 ? r : make_journal(dir, err);
}

/* What a writer that died has made of it is no use; nobody has been told of it. */
static int make(const struct image *image, int dirfd, const char *name,
		const struct job_ground *ground, struct err *err)
{
	auto_close int dir = -1;

	if (mkdirat(dirfd, name, 0711) < 0) {
		auto_close int there = errno == EEXIST ? open_dir(dirfd, name, err) : -1;

		if (there < 0)
			return err_set(err, errno, "make '%s'", name);
		if (faccessat(there, "journal", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return 0;
		if (tree_remove(dirfd, name, err) < 0 || mkdirat(dirfd, name, 0711) < 0)
			return err_set(err, errno, "make '%s' anew", name);
	}
	dir = open_dir(dirfd, name, err);
	return dir < 0 ? dir : fill(image, dir, &ground->ids, err);
}

static int do_ground(void *arg, int dirfd, const void *args, size_t len, int *ret_fd,
		     struct err *err)
{
	struct job_ground ground;
	char name[STORE_NAME_LEN];
	auto_close int dir = -1;
	int r = 0;

	if (len != sizeof(ground))
		return err_set(err, EINVAL, "make a sandbox's directory");
	memcpy(&ground, args, sizeof(ground));
	store_sandbox_name(name, ground.serial);
	if (ground.make)
		r = make(arg, dirfd, name, &ground, err);
	if (r == 0)
		r = dir = open_dir(dirfd, name, err);
	if (r < 0)
		return r;
	*ret_fd = openat(dir, "layer", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return *ret_fd < 0 ? err_set(err, errno, "open '%s/layer'", name) : 0;
}

static int do_punch(void *arg, int dirfd, const void *args, size_t len, int *ret_fd,
		    struct err *err)
{
	struct job_punch punch;
	auto_close int fd = -1;

	(void)arg;
	(void)ret_fd;
	if (len != sizeof(punch))
		return err_set(err, EINVAL, "give back a part of a stream");
	memcpy(&punch, args, sizeof(punch));
	punch.name[sizeof(punch.name) - 1] = '\0';
	fd = openat(dirfd, punch.name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)punch.from,
				(off_t)(punch.to - punch.from)) < 0)
		return err_set(err, errno, "give back a part of '%s'", punch.name);
	return 0;
}

disk_job *const engine_jobs[JOB_COUNT] = {
	[JOB_NOTHING] = do_nothing,
	[JOB_GROUND] = do_ground,
	[JOB_PUNCH] = do_punch,
};

int job_ground_ask(struct disk *disk, const struct job_ground *ground, struct disk_done *done,
		   struct err *err)
{
	const struct disk_op op = { .what = DISK_JOB,
				    .flags = DISK_MUST | DISK_URGENT,
				    .data = ground,
				    .len = sizeof(*ground),
				    .job = JOB_GROUND,
				    .done = done };

	return disk_put(disk, &op, err);
}

int job_punch_ask(struct disk *disk, const struct job_punch *punch)
{
	const struct disk_op op = { .what = DISK_JOB,
				    .flags = DISK_MUST,
				    .data = punch,
				    .len = sizeof(*punch),
				    .job = JOB_PUNCH };

	return disk_put(disk, &op, NULL);
}
