/* frame.h - the frame stream of exec: stdout, stderr and the result on one connection
 *
 * A frame is a header of 8 bytes, and its payload:
 *
 *	type, 3 bytes that are 0 and not looked at, payload length (4 bytes, big-endian)
 *
 * A payload has at most 65536 bytes.  Frames of one type that follow each other
 * are one stream of bytes; where they are cut means nothing.  What a server sends
 * is frames, one exit frame, and the end.
 *
 * Nothing is allocated and no payload is copied or collected: the decoder hands
 * out parts of its input as they come.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define FRAME_HEADER_LEN  8
#define FRAME_PAYLOAD_MAX 65536

enum frame_type {
	FRAME_STDOUT = 1, /* from a server */
	FRAME_STDERR = 2,
	FRAME_EXIT = 3,  /* its payload is a result in JSON; nothing comes behind it */
	FRAME_STDIN = 4, /* from a client */
	FRAME_STDIN_CLOSE = 5,
};

/* Writes the header of a payload of `len` bytes, at most FRAME_PAYLOAD_MAX. */
void frame_header(unsigned char out[FRAME_HEADER_LEN], enum frame_type, size_t len);
/* The next frame of a write of which `left` bytes, at least 1, are still to be framed: its header, and
 * how many of them are its payload. */
size_t frame_cut(unsigned char out[FRAME_HEADER_LEN], enum frame_type, uint64_t left);
/* How many bytes a write of `len` has as frames. */
uint64_t frame_size(uint64_t len);

enum frame_sender { FRAME_SERVER, FRAME_CLIENT };

/* Fields are the decoder's. */
struct frame_decoder {
	enum frame_sender from;
	unsigned char header[FRAME_HEADER_LEN];
	size_t have;   /* bytes of the header */
	uint32_t left; /* bytes of the payload that have not come */
	bool exited;   /* the exit frame has begun */
};

/* What has come of one frame. */
struct frame_part {
	uint8_t type;
	bool known;        /* is it a type that this sender has? If not it should be ignored. */
	bool first, last;  /* the frame begins, is complete, with this part: may both be so */
	const char *bytes; /* into the input */
	size_t len;        /* may be 0: of an empty payload, or one that has not come yet */
};

/* `from`: who sends what it will read. */
void frame_decoder_init(struct frame_decoder *, enum frame_sender from);
/* Reads from a stream, however it is cut, up to the next part of a frame; *ret_some: there is one.
 * Returns how many bytes were consumed, which is 0 only if `len` is, or
 * -EPROTO: a payload that is too long, or a frame behind the exit frame. Then it is not used again. */
ssize_t frame_decode(struct frame_decoder *, const void *bytes, size_t len, bool *ret_some,
		     struct frame_part *ret, struct err *);
/* The stream has ended. 0, or -EPROTO: inside a frame, or a server's without an exit frame. */
int frame_decode_end(const struct frame_decoder *, struct err *);
