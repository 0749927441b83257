/* retain.c - how much output is kept, and what goes when that is too much
 *
 * Two limits: a stream keeps output_limit bytes, a sandbox limits.output of all its
 * streams together, and of the index of their order (arrival_kept.c), which may go
 * over it by a block.  Below both nothing is ever given back.
 *
 *	own limit		"drop" throws away all that follows.  "wait" stalls the stream: its pipe is
 *				left full, until readers have consumed some, and that goes.
 *	the sandbox's limit	the output of commands that are over goes first, the oldest
 *				first, but for requests with `keep`; with none left a running
 *				stream does as at its own limit.
 *
 * What was consumed: below the lowest place of the sequential readers that are open,
 * or with none open below the furthest that one got.  A shell that reads lines reads
 * a block and seeks back, so the last bytes before a reader's place stay as well,
 * unless the limit itself is small, or the sandbox full.
 *
 * A stalled stream is out of the loop: however long nobody reads it costs nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "sandbox/jobs.h"
#include "sandbox/sandbox-internal.h"

#define SEEK_BACK   ((uint64_t)64 << 10) /* what a reader may go back, of limits above 1 MiB */
#define SMALL_LIMIT ((uint64_t)1 << 20)
#define PUNCH_STEP  ((uint64_t)4 << 20) /* given back in pieces of so much, or an eighth */
#define BLOCK       ((uint64_t)4096)

static uint64_t limit_of(const struct stream *st)
{
	return exec_request_output_limit(&st->exec->request);
}

static uint64_t sandbox_limit(const struct sandbox *sb)
{
	uint64_t limit = sb->spec.output_max;

	return limit ? limit : sb->engine->limits.sandbox_output;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* --- what is kept, counted --- */

/* So far it is written, or may be at any time. */
static uint64_t written(const struct stream *st)
{
	return st->pump && st->granted > st->size ? st->granted : st->size;
}

/* Not of one that goes: nobody would take the task back. */
static void room_later(struct sandbox *sb)
{
	if (!list_empty(&sb->stalled) && !sb->removed && !sb->engine->closing)
		ev_defer(sb->engine->loop, &sb->room);
}

static void count(struct sandbox *sb, uint64_t *stored, uint64_t now)
{
	sb->stored += now - *stored;
	if (now < *stored)
		room_later(sb);
	*stored = now;
}

void retain_count(struct stream *st)
{
	struct sandbox *sb = st->exec->sandbox;
	uint64_t now = written(st) - (sb->engine->store.no_holes ? 0 : st->given);

	count(sb, &st->stored, st->gone ? 0 : now);
}

void retain_count_index(struct exec *ex, uint64_t bytes)
{
	count(ex->sandbox, &ex->arrival.stored, bytes);
}

void retain_forget(struct stream *st)
{
	stream_unlink(st);
	st->gone = true;
	retain_count(st);
}

static bool has_readers(const struct exec *ex)
{
	return !list_empty(&ex->stream[EXEC_STDOUT].readers) ||
	       !list_empty(&ex->stream[EXEC_STDERR].readers);
}

/* False: there is none whose output could go. */
static bool give_up_oldest(struct sandbox *sb)
{
	struct exec *ex;

	list_for_each (ex, &sb->spooled, spooled) {
		if (has_readers(ex))
			continue;
		list_del(&ex->spooled);
		for (size_t i = 0; i < EXEC_STREAM_COUNT; i++) {
			retain_forget(&ex->stream[i]);
			ex->stream[i].given = ex->stream[i].size;
		}
		arrival_give_up(ex);
		return true;
	}
	return false;
}

void retain_over(struct exec *ex)
{
	struct sandbox *sb = ex->sandbox;
	uint64_t stored = ex->stream[EXEC_STDOUT].stored + ex->stream[EXEC_STDERR].stored;

	if (ex->state != EXEC_DONE || ex->removed || ex->request.keep || !stored ||
	    !ex->stream[EXEC_STDOUT].ended || !ex->stream[EXEC_STDERR].ended ||
	    !list_empty(&ex->spooled))
		return;
	list_add_tail(&sb->spooled, &ex->spooled);
	room_later(sb);
}

uint64_t retain_room(const struct stream *st)
{
	struct sandbox *sb = st->exec->sandbox;
	uint64_t kept = written(st) - st->given, limit = limit_of(st), max = sandbox_limit(sb);

	if (kept >= limit)
		return 0;
	while (sb->stored >= max && give_up_oldest(sb))
		;
	return sb->stored >= max ? 0 : lower(limit - kept, max - sb->stored);
}

bool retain_has_all(const struct stream *st)
{
	return retain_room(st) == limit_of(st) - (written(st) - st->given);
}

/* --- a stream that is full --- */

static void stall(struct stream *st)
{
	st->full = true;
	list_add_tail(&st->exec->sandbox->stalled, &st->stalled);
	stream_pause(st); /* also of a pump, which does not look at its pipe now */
}

static void resume(struct stream *st)
{
	st->full = false;
	list_del(&st->stalled);
	if (st->pump)
		stream_pump_resume(st);
	else
		stream_resume(st);
}

void retain_resume(struct sandbox *sb)
{
	struct stream *st, *next;

	list_for_each_safe (st, next, &sb->stalled, stalled)
		if (retain_room(st) > 0)
			resume(st);
}

/* Below it all has been consumed. */
static uint64_t consumed(const struct stream *st, uint64_t slack)
{
	const struct stream_reader *rd;
	uint64_t lowest = UINT64_MAX;

	list_for_each (rd, &st->readers, link) {
		uint64_t back = rd->end > slack ? rd->end - slack : 0;

		if (!rd->jumps)
			lowest = lower(lowest, back > rd->from ? back : rd->from);
	}
	return lower(lowest == UINT64_MAX ? st->consumed : lowest, st->size);
}

/* Gives whole blocks back. */
static void punch(struct stream *st)
{
	uint64_t to = st->given / BLOCK * BLOCK, step = lower(PUNCH_STEP, limit_of(st) / 8);
	struct job_punch punch = { .from = st->punched, .to = to };

	if (to <= st->punched || to - st->punched < step ||
	    st->exec->sandbox->engine->store.no_holes)
		return;
	stream_spool_name(st, punch.name);
	if (job_punch_ask(stream_disk(st), &punch) == 0)
		st->punched = to;
}

static void give_back(struct stream *st, uint64_t slack)
{
	uint64_t to = st->exec->request.keep ? 0 : consumed(st, slack);

	if (to <= st->given)
		return;
	st->given = to;
	punch(st);
	retain_count(st);
	arrival_given(st->exec);
}

/* In a sandbox that is full what the other stream's readers have consumed goes too, and what a shell
 * may go back to: else a command would wait for readers who wait for it. */
void retain_consumed(struct stream *st)
{
	const struct sandbox *sb = st->exec->sandbox;
	struct stream *both = st->exec->stream;

	if (!both[EXEC_STDOUT].full && !both[EXEC_STDERR].full)
		return;
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		if (both[i].full)
			give_back(&both[i], limit_of(&both[i]) > SMALL_LIMIT ? SEEK_BACK : 0);
	for (size_t i = 0; i < EXEC_STREAM_COUNT && sb->stored >= sandbox_limit(sb); i++)
		give_back(&both[i], 0);
	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++)
		if (both[i].full && retain_room(&both[i]) > 0)
			resume(&both[i]);
}

void retain_lost(struct stream *st)
{
	if (st->full)
		resume(st);
	retain_consumed(st);
}

void retain_stall(struct stream *st)
{
	if (st->full || st->truncated)
		return;
	stall(st);
	/* Its readers may have got to its end before it was full, and wait there. */
	retain_consumed(st);
}

void retain_restore(struct stream *st, int dirfd, const char *name)
{
	uint64_t known = st->exec->result.stream_bytes[st->which];
	auto_close int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat info = { 0 };
	off_t data = 0;

	if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) {
		st->size = (uint64_t)info.st_size;
		st->changed_at = info.st_mtim;
		data = lseek(fd, 0, SEEK_DATA); /* what was given back is a hole */
		st->given = data > 0 ? (uint64_t)data : data < 0 && errno == ENXIO ? st->size : 0;
		st->punched = st->given / BLOCK * BLOCK;
	} else if (known) {
		st->size = st->given = known;
		st->gone = true;
	}
	retain_count(st);
}
