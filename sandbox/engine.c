/* engine.c - the set of sandboxes, and how it comes back after a restart
 *
 * At start nothing of a former hutchd runs any more: its agents died with their
 * control sockets.  What is on disk is brought back as `stopped`; directories
 * without a record were never finished and go to the trash.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "sandbox/jobs.h"
#include "sandbox/sandbox-internal.h"

DEFINE_AUTO(DIR *, closedir);

/* How long engine_free() waits for killed processes; what a kernel is still tearing down then
 * is out of anybody's reach, and ends by itself. */
#define END_WAIT_NS     (INT64_C(5) * 1000000000)
#define ZOMBIES_WAIT_NS (INT64_C(1) * 1000000000)

void engine_add(struct engine *eng, struct sandbox *sb)
{
	struct list *at = &eng->sandboxes;

	/* The end, but for one that was made ahead and is taken after a younger one. */
	while (at->prev != &eng->sandboxes &&
	       list_entry(at->prev, struct sandbox, link)->serial > sb->serial)
		at = at->prev;
	list_add_tail(at, &sb->link);
	hmap_add(&eng->by_name, &sb->by_name, hmap_hash_str(sb->id));
	hmap_add(&eng->by_serial, &sb->by_serial, hmap_hash_u64(sb->serial));
	eng->count++;
}

void engine_on_removed(struct engine *eng, void (*removed)(void *arg, struct sandbox *), void *arg)
{
	eng->removed = removed;
	eng->removed_arg = arg;
}

void engine_remove(struct engine *eng, struct sandbox *sb)
{
	ev_timer_cancel(&sb->ttl);
	ev_timer_cancel(&sb->idle);
	ev_task_cancel(&sb->trim);
	ev_task_cancel(&sb->room);
	journal_close(sb);
	list_del(&sb->link);
	hmap_del(&eng->by_name, &sb->by_name);
	hmap_del(&eng->by_serial, &sb->by_serial);
	eng->count--;
}

struct sandbox *sandbox_find(struct engine *eng, const char *id)
{
	struct hmap_node *n;

	hmap_for_each_hash (n, &eng->by_name, hmap_hash_str(id)) {
		struct sandbox *sb = container_of(n, struct sandbox, by_name);

		if (strcmp(sb->id, id) == 0)
			return sb;
	}
	return NULL;
}

struct sandbox *sandbox_find_serial(struct engine *eng, uint32_t serial)
{
	struct hmap_node *n;

	hmap_for_each_hash (n, &eng->by_serial, hmap_hash_u64(serial)) {
		struct sandbox *sb = container_of(n, struct sandbox, by_serial);

		if (sb->serial == serial)
			return sb;
	}
	return NULL;
}

struct sandbox *sandbox_next(struct engine *eng, uint32_t after)
{
	struct sandbox *at = sandbox_find_serial(eng, after);
	struct sandbox *sb;

	if (at)
		return at->link.next == &eng->sandboxes
			       ? NULL
			       : list_entry(at->link.next, struct sandbox, link);
	list_for_each (sb, &eng->sandboxes, link)
		if (sb->serial > after)
			return sb;
	return NULL;
}

size_t sandbox_count(const struct engine *eng)
{
	return eng->count;
}

const char *engine_lacks(const struct engine *eng)
{
	return eng->groups.kind == CGROUP_NONE ? eng->groups.why.msg : NULL;
}

bool engine_has_holes(const struct engine *eng)
{
	return !eng->store.no_holes;
}

struct list *engine_wait_room(struct engine *eng, uid_t uid)
{
	return disk_has_room(eng->disk, uid) ? NULL : disk_room(eng->disk);
}

uint64_t engine_secret(const struct engine *eng)
{
	return eng->store.secret;
}

/* --- the trash --- */

static void ask_whether_moved(struct engine *eng)
{
	const struct disk_op op = {
		.what = DISK_JOB, .flags = DISK_MUST, .job = JOB_NOTHING, .done = &eng->moved
	};

	eng->move_again = false;
	(void)disk_put(eng->disk, &op, NULL);
}

static void on_moved(struct disk_done *done, int fd, const struct err *err)
{
	struct engine *eng = container_of(done, struct engine, moved);

	(void)fd;
	(void)err;
	trash_empty(&eng->trash);
	if (eng->move_again)
		ask_whether_moved(eng);
}

void engine_discard(struct engine *eng, uint32_t serial)
{
	char from[STORE_NAME_LEN], to[STORE_NAME_LEN];
	const struct disk_op op = {
		.what = DISK_RENAME, .flags = DISK_MUST, .name = from, .to = to
	};

	store_sandbox_name(from, serial);
	store_trash_name(to, serial);
	(void)disk_put(eng->disk, &op, NULL);
	if (eng->moved.ticket)
		eng->move_again = true;
	else
		ask_whether_moved(eng);
}

static int restore(struct engine *eng, uint32_t serial)
{
	struct sandbox *sb = sandbox_new(eng, serial);
	struct err err = { 0 };
	int r;

	if (!sb)
		return -ENOMEM;
	r = record_read(sb, eng->store.fd, &err);
	if (r == -ENOENT || r == -ENOMEM) {
		sandbox_unref(sb);
		if (r == -ENOENT) /* mkdir never got to its end */
			engine_discard(eng, serial);
		return r == -ENOMEM ? r : 0;
	}
	if (r < 0) { /* what is in it may be dear to somebody: shown, not thrown away */
		(void)snprintf(sb->id, sizeof(sb->id), "damaged-%u", serial);
		sb->uid = geteuid();
		sb->gid = getegid();
	}
	engine_add(eng, sb);
	if (sb->state != SANDBOX_QUARANTINED)
		sb->state = SANDBOX_STOPPED;
	if (r < 0) {
		sb->ids->count = 0;
	} else if (!idpool_claim(&eng->ids, sb->ids)) {
		sb->ids->count = 0;
		r = err_say(&err, EADDRINUSE, "its user ids %u… are not free any more",
			    sb->ids->base);
	} else {
		r = journal_open(sb, &err);
	}
	if (r < 0 && sb->state != SANDBOX_QUARANTINED) {
		sb->state = SANDBOX_FAILED;
		sb->why = err;
	}
	if (sb->held) /* whoever held it has lost it with the former hutchd */
		sandbox_remove(sb);
	else
		sandbox_arm_ttl(sb);
	return r == -ENOMEM ? r : 0;
}

/* Of every directory in sandboxes/, as a file system lists them: in any order. */
static int list_serials(struct engine *eng, struct buf *ret, struct err *err)
{
	AUTO(closedir) DIR *dir = NULL;
	int fd = openat(eng->store.fd, "sandboxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dirent *e;

	if (fd < 0 || !(dir = fdopendir(fd))) {
		if (fd >= 0)
			(void)close(fd);
		return err_set(err, errno, "read 'sandboxes'");
	}
	while ((e = readdir(dir))) {
		char *end;
		unsigned long n = strtoul(e->d_name, &end, 10);
		uint32_t serial = (uint32_t)n;

		if (*end || n == 0 || n >= eng->store.reserved)
			continue;
		if (buf_add(ret, &serial, sizeof(serial)) < 0)
			return err_set(err, ENOMEM, "read 'sandboxes'");
	}
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* In their order, so that each has its place at the end of the list. */
static int restore_all(struct engine *eng, struct err *err)
{
	auto_buf struct buf all = { 0 };
	int r = list_serials(eng, &all, err);
	uint32_t *serial = (uint32_t *)(void *)all.data;
	size_t n = all.len / sizeof(*serial);

	if (r < 0)
		return r;
	if (n)
		qsort(serial, n, sizeof(*serial), by_number);
	for (size_t i = 0; i < n; i++)
		if (restore(eng, serial[i]) < 0)
			return err_set(err, ENOMEM, "bring back sandbox %u", serial[i]);
	return 0;
}

/* Behind what it must know of, and before what is written. */
static int start_disk(struct engine *eng, struct err *err)
{
	const struct disk_config config = { .loop = eng->loop,
					    .zombies = &eng->zombies,
					    .dirfd = eng->store.fd,
					    .keep = eng->store.writer,
					    .jobs = engine_jobs,
					    .jobs_n = JOB_COUNT,
					    .job_arg = eng->image };
	int r = disk_new(&eng->disk, &config, err);

	eng->store.disk = eng->disk;
	return r;
}

static int engine_init(struct engine *eng, const struct engine_config *config, struct err *err)
{
	const struct store_config store = { config->state_dir, config->notice };
	int r;

	eng->null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (eng->null_fd < 0)
		return err_set(err, errno, "open '/dev/null'");
	r = store_open(&eng->store, &store, err);
	if (r == 0)
		r = trash_init(&eng->trash, eng->store.fd, &eng->zombies, err);
	if (r == 0)
		r = idpool_init(&eng->ids, err);
	if (r == 0)
		r = cgroups_init(&eng->groups, eng->loop, config->cgroup ? config->cgroup : "auto",
				 eng->store.fd, err);
	if (r == 0)
		r = lo_request_build(&eng->lo, err);
	if (r == 0)
		r = image_host_new(&eng->image, eng->store.fd, eng->store.path, err);
	if (r == 0)
		r = start_disk(eng, err);
	if (r == 0)
		r = restore_all(eng, err);
	return r;
}

int engine_new(struct engine **ret, const struct engine_config *config, struct err *err)
{
	struct engine *eng = calloc(1, sizeof(*eng));
	int r;

	if (!eng)
		return err_set(err, ENOMEM, "make the engine");
	eng->loop = config->loop;
	eng->agent_fd = config->agent_fd;
	eng->id_tag = config->id_tag;
	quota_init(eng, &config->limits);
	eng->null_fd = eng->store.fd = eng->store.lock = eng->store.writer = -1;
	eng->trash.dirfd = eng->trash.wake = -1;
	eng->moved.fn = on_moved;
	cgroups_prepare(&eng->groups);
	blanks_init(&eng->blanks, eng);
	pipes_init(&eng->pipes, eng->loop);
	event_log_init(&eng->events);
	list_init(&eng->event_logs);
	list_init(&eng->sandboxes);
	list_init(&eng->leaving);
	list_init(&eng->runs);
	list_init(&eng->mount_jobs);
	zombies_init(&eng->zombies, eng->loop);
	eng->mounts_allowed = config->mounts_allowed;
	hmap_init(&eng->by_name);
	hmap_init(&eng->by_serial);
	r = engine_init(eng, config, err);
	if (r < 0) {
		engine_free(eng);
		return r;
	}
	trash_empty(&eng->trash); /* what a former hutchd left */
	blanks_fill(&eng->blanks);
	*ret = eng;
	return 0;
}

void engine_free(struct engine *eng)
{
	struct sandbox_run *run;

	if (!eng)
		return;
	eng->closing = true;
	list_for_each (run, &eng->runs, link)
		run_end(run, NULL);
	run_wait_all(eng, ev_now() + END_WAIT_NS);
	mounts_end_all(&eng->mount_jobs);
	while (!list_empty(&eng->sandboxes)) {
		struct sandbox *sb = list_first(&eng->sandboxes, struct sandbox, link);

		engine_remove(eng, sb);
		sandbox_drop_all(sb);
	}
	while (!list_empty(&eng->leaving))
		sandbox_drop_all(list_first(&eng->leaving, struct sandbox, link));
	pipes_done(&eng->pipes);
	events_done(eng);
	hmap_done(&eng->by_name);
	hmap_done(&eng->by_serial);
	if (eng->disk)
		blanks_done(&eng->blanks);
	disk_free(eng->disk);
	trash_done(&eng->trash);
	zombies_done(&eng->zombies, ev_now() + ZOMBIES_WAIT_NS); /* before their groups go */
	cgroups_done(&eng->groups);
	image_free(eng->image);
	idpool_done(&eng->ids);
	store_close(&eng->store);
	close_auto(&eng->null_fd);
	free(eng);
}
