/* fuzz_frame.c - the frame decoder: any bytes, from either side, cut anywhere
 *
 * Besides not crashing: it always gets on, parts lie in the input and make up whole
 * frames, no payload is longer than it may be, and how a stream is cut changes
 * neither what is in it nor whether it is refused.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

struct sum {
	uint64_t frames, bytes, hash;
	int64_t end;
};

static void add(struct sum *s, const struct frame_part *part)
{
	s->frames += part->first;
	s->bytes += part->len;
	if (part->first)
		s->hash = s->hash * 31 + part->type;
	for (size_t i = 0; i < part->len; i++)
		s->hash = s->hash * 31 + (uint8_t)part->bytes[i];
	if (part->last)
		s->hash = s->hash * 31 + 7;
}

static struct sum decode(const uint8_t *data, size_t size, enum frame_sender from, size_t step)
{
	struct frame_decoder d;
	struct sum sum = { 0 };
	size_t at = 0, in_frame = 0;
	bool open = false;

	frame_decoder_init(&d, from);
	while (at < size) {
		const char *bytes = (const char *)data + at;
		size_t len = size - at < step ? size - at : step;
		struct frame_part part;
		struct err err = { 0 };
		bool some;
		ssize_t n = frame_decode(&d, bytes, len, &some, &part, &err);

		if (n < 0) {
			require(n == -EPROTO && err.msg[0]);
			sum.end = n;
			return sum;
		}
		require(n > 0 && (size_t)n <= len);
		at += (size_t)n;
		if (!some)
			continue;
		require(part.first != open && part.bytes >= bytes &&
			part.bytes + part.len == bytes + n);
		in_frame = (part.first ? 0 : in_frame) + part.len;
		require(in_frame <= FRAME_PAYLOAD_MAX);
		open = !part.last;
		add(&sum, &part);
	}
	sum.end = frame_decode_end(&d, NULL);
	require(!open || sum.end < 0);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (int from = FRAME_SERVER; from <= FRAME_CLIENT; from++) {
		struct sum whole = decode(data, size, (enum frame_sender)from, SIZE_MAX);

		for (size_t step = 1; step <= 9; step += 2) {
			struct sum cut = decode(data, size, (enum frame_sender)from, step);

			require(memcmp(&cut, &whole, sizeof(cut)) == 0);
		}
	}
	return 0;
}
