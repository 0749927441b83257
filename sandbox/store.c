#include "sandbox/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/filesystem.h"
#include "sandbox/sandbox.h"

/* Serials are taken from the disk in blocks, so that making a sandbox seldom writes. A crash
 * wastes the rest of a block. */
#define SERIAL_BLOCK   64
/* How long a former hutchd's writer is waited for, and when somebody is told. */
#define WRITER_WAIT_MS 120000
#define WRITER_SAY_MS  2000
#define WRITER_LOOK_MS 20
#define SERIAL_END     (UINT32_C(1) << SANDBOX_SERIAL_BITS)

static int make_dir(int dirfd, const char *name, mode_t mode, struct err *err)
{
	if (mkdirat(dirfd, name, mode) < 0 && errno != EEXIST)
		return err_set(err, errno, "make '%s'", name);
	return 0;
}

/* Every parent that is missing, then `path`: a user's ~/.local/state need not exist yet. */
static int make_path(const char *path, struct err *err)
{
	auto_free char *copy = strdup(path);

	if (!copy)
		return err_set(err, ENOMEM, "open '%s'", path);
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return err_set(err, errno, "make '%s'", copy);
		*slash = '/';
	}
	if (mkdir(path, 0711) < 0 && errno != EEXIST)
		return err_set(err, errno, "make '%s'", path);
	return 0;
}

static int take_lock(struct store *st, struct err *err)
{
	st->lock = openat(st->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (st->lock < 0)
		return err_set(err, errno, "open 'lock'");
	if (flock(st->lock, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? err_say(err, EBUSY,
						      "in use by another hutchd: stop that one, or "
						      "give this one a --state-dir of its own")
					    : err_set(err, errno, "lock it");
	return 0;
}

/* A former hutchd has gone, but its writer may not be at its end: until then nothing is as it was
 * left. */
static int wait_for_writer(struct store *st, void (*notice)(const char *), struct err *err)
{
	const struct timespec pause = { .tv_nsec = WRITER_LOOK_MS * 1000000L };

	st->writer = openat(st->fd, "writer", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (st->writer < 0)
		return err_set(err, errno, "open 'writer'");
	for (int ms = 0; flock(st->writer, LOCK_EX | LOCK_NB) < 0; ms += WRITER_LOOK_MS) {
		if (errno != EWOULDBLOCK)
			return err_set(err, errno, "lock 'writer'");
		if (ms >= WRITER_WAIT_MS)
			return err_say(
				err, EBUSY,
				"the writer of a hutchd that has ended is not done after %d s: "
				"look at the disk, and try again",
				WRITER_WAIT_MS / 1000);
		if (ms == WRITER_SAY_MS && notice)
			notice("waiting for the writer of the last hutchd: the disk of the state "
			       "directory is slow");
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

/* ext4 then puts each new directory, and with it what is made in it, into another part of the disk:
 * else it would pass over the inodes of all sandboxes that were removed in the last seconds. */
static void spread(const struct store *st)
{
	auto_close int fd = openat(st->fd, "sandboxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned flags;

	/* Other file systems have no such flag, and no such need. */
	if (fd >= 0 && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
		flags |= FS_TOPDIR_FL;
		(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
	}
}

/* A file that holds one number; a missing one is `missing`. */
static int read_number(int dirfd, const char *name, int base, uint64_t missing, uint64_t *ret,
		       struct err *err)
{
	auto_buf struct buf text = { .max = 64 };
	struct err why = { 0 };
	char *end;
	int r = file_read(dirfd, name, &text, &why);

	if (r == -ENOENT) {
		*ret = missing;
		return 0;
	}
	if (r < 0)
		return err_say(err, -r, "%s", why.msg);
	errno = 0;
	*ret = strtoull(text.data ? text.data : "", &end, base);
	if (errno || !text.data || end == text.data || (*end && *end != '\n'))
		return err_say(err, EINVAL, "'%s' does not hold a number: it was damaged", name);
	return 0;
}

static int load_secret(struct store *st, struct err *err)
{
	char text[32];
	int r = read_number(st->fd, "secret", 16, 0, &st->secret, err);

	if (r < 0 || st->secret)
		return r;
	while (!st->secret)
		if (getrandom(&st->secret, sizeof(st->secret), 0) != sizeof(st->secret))
			return err_set(err, errno, "draw a secret");
	(void)snprintf(text, sizeof(text), "%016" PRIx64 "\n", st->secret);
	return file_replace(st->fd, "secret", 0600, text, strlen(text), err);
}

static int load(struct store *st, const struct store_config *config, struct err *err)
{
	static const char *const part[] = { "images", "sandboxes", "trash" };
	static const mode_t mode[] = { 0755, 0711, 0700 };
	uint64_t serial = 0;
	int r = 0;

	r = take_lock(st, err);
	if (r == 0)
		r = wait_for_writer(st, config->notice, err);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(part); i++)
		r = make_dir(st->fd, part[i], mode[i], err);
	if (r == 0)
		spread(st);
	/* With holes a stream of any length takes no more than its limit. */
	st->no_holes = r == 0 && filesystem_has_holes(st->fd) <= 0;
	if (r == 0)
		r = load_secret(st, err);
	if (r == 0)
		r = read_number(st->fd, "serial", 10, 1, &serial, err);
	if (r < 0)
		return r;
	if (serial == 0 || serial > SERIAL_END)
		return err_say(err, EINVAL, "'serial' is out of range: it was damaged");
	st->next_serial = st->reserved = (uint32_t)serial;
	st->path = realpath(config->dir, NULL);
	return st->path ? 0 : err_set(err, errno, "resolve its name");
}

int store_open(struct store *st, const struct store_config *config, struct err *err)
{
	const char *dir = config->dir;
	int r;

	*st = (struct store){ .fd = -1, .lock = -1, .writer = -1 };
	r = make_path(dir, err);
	if (r < 0)
		return err_wrap(err, r, "state directory");
	st->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (st->fd < 0)
		return err_set(err, errno, "state directory '%s'", dir);
	r = load(st, config, err);
	if (r < 0) {
		store_close(st);
		return err_wrap(err, r, "state directory '%s'", dir);
	}
	return 0;
}

void store_close(struct store *st)
{
	close_auto(&st->fd);
	close_auto(&st->writer);
	close_auto(&st->lock);
	free(TAKE_PTR(st->path));
}

static int write_serial(const struct store *st, uint32_t serial, struct err *err)
{
	char text[16];
	const struct disk_op op = {
		.what = DISK_REPLACE,
		.flags = DISK_MUST,
		.name = "serial",
		.mode = 0600,
		.data = text,
		.len = (size_t)snprintf(text, sizeof(text), "%u\n", serial),
	};

	return st->disk ? disk_put(st->disk, &op, err)
			: file_replace(st->fd, op.name, op.mode, op.data, op.len, err);
}

int store_new_serial(struct store *st, uint32_t *ret, struct err *err)
{
	if (st->next_serial >= SERIAL_END)
		return err_say(err, ENOSPC,
			       "all %u serials of this state directory were used: begin a new one",
			       SERIAL_END - 1);
	if (st->next_serial == st->reserved) {
		uint32_t to = st->reserved + SERIAL_BLOCK;
		int r;

		if (to > SERIAL_END)
			to = SERIAL_END;
		r = write_serial(st, to, err);
		if (r < 0)
			return err_wrap(err, r, "reserve serials");
		st->reserved = to;
	}
	*ret = st->next_serial++;
	return 0;
}

void store_sandbox_name(char out[STORE_NAME_LEN], uint32_t serial)
{
	(void)snprintf(out, STORE_NAME_LEN, "sandboxes/%u", serial);
}

void store_trash_name(char out[STORE_NAME_LEN], uint32_t serial)
{
	(void)snprintf(out, STORE_NAME_LEN, "trash/%u", serial);
}
