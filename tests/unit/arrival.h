/* arrival.h - a command whose streams are written by a test: spools and an index, no sandbox
 *
 * Bytes of stdout have bit 7 clear, those of stderr have it set.
 */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/list.h"
#include "sandbox/jobs.h"
#include "sandbox/sandbox-internal.h"

static char dir[] = "/tmp/hutch-test-XXXXXX";
static struct ev_loop loop;
static struct engine eng;
static struct sandbox box;
static struct journal journal;
static uint64_t seed;

static inline uint32_t rnd(uint32_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % below;
}

#define SIZES_MAX 4096

/* --- a command that writes as it is told --- */

struct writer {
	struct exec *ex;
	int spool[EXEC_STREAM_COUNT];
	struct buf all; /* in the order in which it came; stderr's have bit 7 */
	struct buf stream[EXEC_STREAM_COUNT]; /* each alone */
	struct arrival_reader rd[2];          /* who reads all along: output, frames */
	uint64_t size[SIZES_MAX];             /* of frames, as they were told */
	size_t sizes;
	struct buf frames, output; /* what has been read of these */
};

static const char *const ending[] = { "out", "err", "idx" };

static inline void path_of(char out[96], uint32_t serial, const char *end)
{
	(void)snprintf(out, 96, "%s/sandboxes/1/spool/%u.%s", dir, serial, end);
}

static inline struct exec *new_exec(uint32_t serial)
{
	struct exec *ex = calloc(1, sizeof(*ex));

	ex->refs = 1; /* not the last one, when those of the engine come and go */
	ex->sandbox = &box;
	ex->serial = serial;
	ex->state = EXEC_RUNNING;
	list_init(&ex->spooled);
	arrival_init(&ex->arrival);
	for (int i = 0; i < EXEC_STREAM_COUNT; i++)
		stream_init(&ex->stream[i], ex, (enum exec_stream)i);
	return ex;
}

static inline void free_exec(struct exec *ex)
{
	for (int i = 0; i < EXEC_STREAM_COUNT; i++)
		stream_done(&ex->stream[i]);
	arrival_done(&ex->arrival);
	exec_result_done(&ex->result);
	free(ex);
}

static inline void open_readers(struct writer *w)
{
	for (int frames = 0; frames < 2; frames++)
		arrival_open(&w->rd[frames], w->ex, frames);
}

static inline void close_readers(struct writer *w)
{
	for (int frames = 0; frames < 2; frames++)
		arrival_close(&w->rd[frames]);
}

static inline void forget_journal(void)
{
	static const struct disk_op op = { .what = DISK_UNLINK,
					   .flags = DISK_MUST,
					   .name = "sandboxes/1/journal" };

	(void)disk_put(eng.disk, &op, NULL);
	journal.size = 0;
}

static inline void begin(struct writer *w, uint32_t serial)
{
	char path[96];

	forget_journal();
	*w = (struct writer){ .ex = new_exec(serial) };
	for (int i = 0; i < EXEC_STREAM_COUNT; i++) {
		path_of(path, serial, ending[i]);
		w->spool[i] = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	}
	open_readers(w);
}

static inline void end(struct writer *w)
{
	char path[96];

	close_readers(w);
	for (int i = 0; i < EXEC_STREAM_COUNT; i++) {
		close_auto(&w->spool[i]);
		buf_done(&w->stream[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ending); i++) {
		path_of(path, w->ex->serial, ending[i]);
		(void)unlink(path);
	}
	buf_done(&w->all);
	buf_done(&w->frames);
	buf_done(&w->output);
	free_exec(w->ex);
}

static inline void drained(struct writer *w, enum exec_stream which, size_t len)
{
	static char bytes[300000];

	for (size_t i = 0; i < len; i++)
		bytes[i] = (char)(rnd(128) | (which == EXEC_STDERR ? 0x80 : 0));
	(void)buf_add(&w->all, bytes, len);
	(void)buf_add(&w->stream[which], bytes, len);
	if (write(w->spool[which], bytes, len) != (ssize_t)len)
		abort();
	if (w->ex->stream[which].spool < 0)
		w->ex->stream[which].spool = dup(w->spool[which]);
	w->ex->stream[which].size += len;
	arrival_add(w->ex, which, len);
}

static inline void finish(struct writer *w)
{
	struct exec_result *res = &w->ex->result;

	*res = (struct exec_result){ .reason = EXEC_EXITED, .error = strdup("\"no\" \xff\n") };
	for (int i = 0; i < EXEC_STREAM_COUNT; i++)
		res->stream_bytes[i] = w->ex->stream[i].size;
	w->ex->state = EXEC_DONE;
	arrival_finish(w->ex);
	journal_finish(w->ex);
	arrival_ended(w->ex);
}

static inline void streams_end(struct writer *w)
{
	for (int i = 0; i < EXEC_STREAM_COUNT; i++) {
		w->ex->stream[i].ended = true;
		arrival_ended(w->ex);
	}
}

/* --- as the next hutchd finds it --- */

static inline char *last_idx(struct exec *ex)
{
	static char text[1 << 20];
	char *at = text, *found = NULL;
	auto_close int fd = -1;
	ssize_t n;

	(void)disk_wait(eng.disk, 10000);
	fd = openat(eng.store.fd, "sandboxes/1/journal", O_RDONLY | O_CLOEXEC);
	n = read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	while ((at = strstr(at, "\"frames\":"))) {
		ex->arrival.frames_end = strtoull(at += 9, NULL, 10);
		ex->arrival.frames_told = true;
	}
	at = text;
	while ((at = strstr(at, "\"idx\":\"")))
		found = at += 7;
	if (found)
		*strchr(found, '"') = '\0';
	return found;
}

/* `lost`: it was running, so that what is there is what there was at its end. */
static inline void restart(struct writer *w, bool lost)
{
	struct exec *old = w->ex, *ex = new_exec(old->serial);
	const char *idx = last_idx(ex);

	ex->state = EXEC_DONE;
	ex->result = old->result;
	old->result.error = NULL;
	for (int i = 0; i < EXEC_STREAM_COUNT; i++) {
		stream_restore(&ex->stream[i]);
		if (lost)
			ex->result.stream_bytes[i] = ex->stream[i].size;
	}
	if (idx)
		arrival_parse(ex, idx);
	arrival_restore(ex);
	close_readers(w);
	w->ex = ex;
	free_exec(old);
	open_readers(w);
}

/* --- the engine, as far as it is needed --- */

static inline bool arrival_test_begin(void)
{
	struct disk_config config;
	char path[96];

	if (!mkdtemp(dir))
		return false;
	(void)snprintf(path, sizeof(path), "mkdir -p %s/sandboxes/1/spool", dir);
	if (system(path) != 0)
		return false;
	eng.store.fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (ev_init(&loop, NULL) < 0)
		return false;
	zombies_init(&eng.zombies, &loop);
	config = (struct disk_config){
		.loop = &loop,
		.zombies = &eng.zombies,
		.dirfd = eng.store.fd,
		.keep = -1,
		.jobs = engine_jobs,
		.jobs_n = JOB_COUNT,
	};
	journal.rewritten = UINT64_MAX / 4;
	box = (struct sandbox){ .engine = &eng, .serial = 1, .journal = &journal };
	list_init(&box.execs);
	list_init(&box.stalled);
	list_init(&box.spooled);
	return disk_new(&eng.disk, &config, NULL) == 0;
}

/* True: nothing is left. */
static inline bool arrival_test_end(void)
{
	char path[96];

	(void)close(eng.store.fd);
	disk_free(eng.disk);
	(void)ev_turn(&loop, 0); /* what the loop still had in its hands */
	ev_done(&loop);
	(void)snprintf(path, sizeof(path), "rm -rf %s", dir);
	return system(path) == 0;
}
