/* frame.c - see frame.h
 *
 * The decoder is between frames (have and left are 0), in a header (have > 0), or
 * in a payload (left > 0).  A length is looked at with the header's last byte, so
 * nobody waits for, or makes room for, a payload that is refused anyway.
 */
#include "base/frame.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

static uint64_t min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

void frame_header(unsigned char out[FRAME_HEADER_LEN], enum frame_type type, size_t len)
{
	const uint32_t size = htobe32((uint32_t)len);

	memset(out, 0, FRAME_HEADER_LEN);
	out[0] = (unsigned char)type;
	memcpy(out + FRAME_HEADER_LEN - sizeof(size), &size, sizeof(size));
}

size_t frame_cut(unsigned char out[FRAME_HEADER_LEN], enum frame_type type, uint64_t left)
{
	size_t len = (size_t)min(left, FRAME_PAYLOAD_MAX);

	frame_header(out, type, len);
	return len;
}

uint64_t frame_size(uint64_t len)
{
	uint64_t frames = len / FRAME_PAYLOAD_MAX + (len % FRAME_PAYLOAD_MAX != 0);

	return len + frames * FRAME_HEADER_LEN;
}

void frame_decoder_init(struct frame_decoder *d, enum frame_sender from)
{
	*d = (struct frame_decoder){ .from = from };
}

static bool is_known(enum frame_sender from, uint8_t type)
{
	switch (type) {
	case FRAME_STDOUT:
	case FRAME_STDERR:
	case FRAME_EXIT:
		return from == FRAME_SERVER;
	case FRAME_STDIN:
	case FRAME_STDIN_CLOSE:
		return from == FRAME_CLIENT;
	default:
		return false;
	}
}

/* The header is complete. */
static int begin(struct frame_decoder *d, struct err *err)
{
	uint32_t size;

	memcpy(&size, d->header + FRAME_HEADER_LEN - sizeof(size), sizeof(size));
	size = be32toh(size);
	if (size > FRAME_PAYLOAD_MAX)
		return err_say(err, EPROTO, "a frame of %lu bytes: at most %d are allowed",
			       (unsigned long)size, FRAME_PAYLOAD_MAX);
	if (d->from == FRAME_SERVER && d->header[0] == FRAME_EXIT)
		d->exited = true;
	d->have = 0;
	d->left = size;
	return 0;
}

ssize_t frame_decode(struct frame_decoder *d, const void *bytes, size_t len, bool *ret_some,
		     struct frame_part *ret, struct err *err)
{
	const char *at = bytes;
	bool first = false;
	size_t used = 0;
	int r;

	*ret_some = false;
	if (len == 0)
		return 0;
	if (!d->left) {
		if (d->exited)
			return err_say(err, EPROTO, "a frame behind the exit frame");
		used = (size_t)min(len, FRAME_HEADER_LEN - d->have);
		memcpy(d->header + d->have, at, used);
		d->have += used;
		if (d->have < FRAME_HEADER_LEN)
			return (ssize_t)used;
		r = begin(d, err);
		if (r < 0)
			return r;
		first = true;
	}
	*ret = (struct frame_part){
		.type = d->header[0],
		.known = is_known(d->from, d->header[0]),
		.first = first,
		.bytes = at + used,
		.len = (size_t)min(len - used, d->left),
	};
	d->left -= (uint32_t)ret->len;
	ret->last = !d->left;
	*ret_some = true;
	return (ssize_t)(used + ret->len);
}

int frame_decode_end(const struct frame_decoder *d, struct err *err)
{
	if (d->have)
		return err_say(err, EPROTO, "the stream ends inside the header of a frame");
	if (d->left)
		return err_say(err, EPROTO, "the stream ends inside a frame: %lu bytes are missing",
			       (unsigned long)d->left);
	if (d->from == FRAME_SERVER && !d->exited)
		return err_say(err, EPROTO, "the stream ends without an exit frame");
	return 0;
}
