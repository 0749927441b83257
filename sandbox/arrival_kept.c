/* arrival_kept.c - what an index takes of its sandbox's limits.output, and what of it goes
 *
 * Streams that change places with every byte have an index that is larger than they
 * are.  So its file counts as output: whole blocks, and the last one when nothing more
 * comes into it, which is little, and must not keep a stream from going on that has
 * given back all else.
 *
 * It goes with the streams.  Whoever reads `output` or `frames` from one end to the other cannot
 * begin in front of a byte that was given back, and no such reader is there any more: so
 * blocks in front of it are of no use.  Where a block begins is known here of one only,
 * `front`; when the streams have got there the block that is the last one then is the
 * next.  So what is left is not more than twice what belongs to the streams.
 *
 * When a command's output is given up, the file is, whole.  Where `frames` end is in the
 * journal, so that the result stays at its place.
 */
#include <errno.h>
#include <unistd.h>

#include "sandbox/arrival-internal.h"
#include "sandbox/jobs.h"

static uint64_t kept(const struct exec *ex)
{
	const struct arrival *a = &ex->arrival;
	uint64_t size =
		arrival_is_over(ex) ? arrival_index_size(a) : (uint64_t)a->block * ARRIVAL_BLOCK;

	if (ex->removed || a->gone)
		return 0;
	return size - (ex->sandbox->engine->store.no_holes ? 0 : a->given);
}

void arrival_count(struct exec *ex)
{
	struct arrival *a = &ex->arrival;

	if ((uint64_t)a->front.block * ARRIVAL_BLOCK <= a->given && a->block > a->front.block) {
		a->front.block = a->block;
		a->front.begin = a->begin;
	}
	retain_count_index(ex, kept(ex));
}

/* Has a stream given back a byte behind it, or both all that is in front of it? */
static bool is_passed(const struct exec *ex, const struct arrival_mark *mark)
{
	bool all = true;

	for (size_t i = 0; i < EXEC_STREAM_COUNT; i++) {
		if (ex->stream[i].given > mark->pos[i])
			return true;
		all &= ex->stream[i].given == mark->pos[i];
	}
	return all;
}

void arrival_given(struct exec *ex)
{
	struct arrival *a = &ex->arrival;
	uint64_t to = (uint64_t)a->front.block * ARRIVAL_BLOCK;

	if (ex->sandbox->engine->store.no_holes)
		return;
	while (to > a->given && is_passed(ex, &a->front.begin)) {
		struct job_punch punch = { .from = a->given, .to = to };

		arrival_index_name(ex, punch.name);
		if (job_punch_ask(ex->sandbox->engine->disk, &punch) < 0)
			return;
		a->given = to;
		arrival_count(ex);
		to = (uint64_t)a->front.block * ARRIVAL_BLOCK;
	}
}

void arrival_give_up(struct exec *ex)
{
	arrival_unlink(ex);
	ex->arrival.gone = true;
	arrival_count(ex);
}

void arrival_count_restored(struct exec *ex, int fd)
{
	struct arrival *a = &ex->arrival;
	off_t data = lseek(fd, 0, SEEK_DATA); /* what was given back is a hole */

	if (data > 0)
		a->given = (uint64_t)data / ARRIVAL_BLOCK * ARRIVAL_BLOCK;
	if (a->given > (uint64_t)a->block * ARRIVAL_BLOCK)
		a->given = (uint64_t)a->block * ARRIVAL_BLOCK;
}
