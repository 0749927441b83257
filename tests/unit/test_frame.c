/* test_frame.c - the frame codec on conformance vectors, however a stream is cut */
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/frame.h"
#include "tests/unit/guard.h"
#include "tests/unit/tap.h"

#define USAGE0                                                               \
	"{\"cpu_user_ms\":1,\"cpu_sys_ms\":2,\"peak_memory_bytes\":3407872," \
	"\"page_faults_major\":0,\"context_switches_involuntary\":4,"        \
	"\"io_read_bytes\":0,\"io_write_bytes\":12}"
#define RESULT(code, ms, signal, timed_out, error, usage)                        \
	"{\"exit_code\":" code ",\"duration_ms\":" ms ",\"signal\":\"" signal    \
	"\",\"timed_out\":" timed_out ",\"oom_killed\":false,\"error\":\"" error \
	"\",\"usage\":" usage "}"
#define EXIT_BASIC RESULT("0", "12", "", "false", "", "null")
#define EXIT_USAGE RESULT("0", "341", "", "false", "", USAGE0)
#define EXIT_ONLY  RESULT("7", "3", "", "false", "", "null")
#define EXIT_AGENT RESULT("-1", "0", "", "false", "exec: 'nope': no such program", "null")
#define EXIT_TIME  RESULT("-1", "2004", "SIGKILL", "true", "", "null")
#define NOT_UTF8   "\xff\xfe\x80\xc0\xaf\xed\xa0\x80"

struct piece {
	uint8_t type;
	size_t len;
	const char *bytes;
	size_t unit; /* bytes that are repeated up to len */
};
#define TEXT(t, s)                                 \
	{                                          \
		t, sizeof(s) - 1, s, sizeof(s) - 1 \
	}
#define DIGITS(t, n)                         \
	{                                    \
		t, n, "0123456789abcdef", 16 \
	}
#define PIECES_MAX 6

/* Streams that are right, and the frames in them. */
static const struct {
	const char *name;
	enum frame_sender from;
	struct piece frame[PIECES_MAX];
	size_t n;
} good[] = {
	{ "exec_basic", FRAME_SERVER, { TEXT(1, "hello world\n"), TEXT(3, EXIT_BASIC) }, 2 },
	{ "exec_interleaved_usage",
	  FRAME_SERVER,
	  { TEXT(1, "out 1\n"), TEXT(2, "err 1\n"), TEXT(1, "out 2\n"), TEXT(2, "err 2\n"),
	    TEXT(3, EXIT_USAGE) },
	  5 },
	{ "exec_exit_only", FRAME_SERVER, { TEXT(3, EXIT_ONLY) }, 1 },
	{ "exec_agent_error", FRAME_SERVER, { TEXT(3, EXIT_AGENT) }, 1 },
	{ "exec_timeout", FRAME_SERVER, { TEXT(1, "working...\n"), TEXT(3, EXIT_TIME) }, 2 },
	{ "exec_chunked",
	  FRAME_SERVER,
	  { DIGITS(1, 65536), DIGITS(1, 65536), DIGITS(1, 5), TEXT(3, EXIT_BASIC) },
	  4 },
	{ "stdin_session",
	  FRAME_CLIENT,
	  { TEXT(4, "echo hi\n"), TEXT(4, "exit\n"), TEXT(5, "") },
	  3 },
	{ "exactly 65536", FRAME_SERVER, { DIGITS(2, 65536), TEXT(3, EXIT_BASIC) }, 2 },
	{ "exactly 131072",
	  FRAME_SERVER,
	  { DIGITS(1, 65536), DIGITS(1, 65536), TEXT(3, "{}") },
	  3 },
	{ "bytes that are not UTF-8", FRAME_SERVER, { TEXT(1, NOT_UTF8), TEXT(3, "{}") }, 2 },
	{ "NULs and an empty payload",
	  FRAME_SERVER,
	  { TEXT(1, "\0\0\0"), TEXT(2, ""), TEXT(3, "") },
	  3 },
	{ "a type that nobody knows",
	  FRAME_SERVER,
	  { TEXT(9, "later"), TEXT(1, "x"), TEXT(0, ""), TEXT(255, "y"), TEXT(3, "{}") },
	  5 },
	{ "the other side's types", FRAME_CLIENT, { TEXT(3, "{}"), TEXT(4, "x"), TEXT(1, "") }, 3 },
	{ "and the other way round", FRAME_SERVER, { TEXT(5, ""), TEXT(4, "x"), TEXT(3, "") }, 3 },
	{ "nothing from a client", FRAME_CLIENT, { { 0 } }, 0 },
};

/* Streams that are wrong, as they are, and what is said of them. */
static const struct {
	const char *name, *bytes;
	size_t len;
	enum frame_sender from;
	bool at_end; /* only the end shows it */
	const char *said;
} bad[] = {
#define ROW(name, bytes, from, at_end, said)                       \
	{                                                          \
		name, bytes, sizeof(bytes) - 1, from, at_end, said \
	}
	ROW("invalid_truncated_header", "\1\0\0\0", FRAME_SERVER, true,
	    "the stream ends inside the header of a frame"),
	ROW("invalid_truncated_payload", "\1\0\0\0\0\0\0\20only", FRAME_SERVER, true,
	    "the stream ends inside a frame: 12 bytes are missing"),
	ROW("invalid_oversize_frame", "\1\0\0\0\0\1\0\1", FRAME_SERVER, false,
	    "a frame of 65537 bytes: at most 65536 are allowed"),
	ROW("a frame of 4 GiB", "\4\0\0\0\377\377\377\377", FRAME_CLIENT, false,
	    "a frame of 4294967295 bytes: at most 65536 are allowed"),
	ROW("an unknown type of 65537 bytes", "\7\0\0\0\0\1\0\1", FRAME_CLIENT, false,
	    "a frame of 65537 bytes: at most 65536 are allowed"),
	ROW("a header alone", "\4\0\0\0\0\0\0\5", FRAME_CLIENT, true,
	    "the stream ends inside a frame: 5 bytes are missing"),
	ROW("a header of 65536 alone", "\1\0\0\0\0\1\0\0", FRAME_SERVER, true,
	    "the stream ends inside a frame: 65536 bytes are missing"),
	ROW("a frame after exit", "\3\0\0\0\0\0\0\2{}\1\0\0\0\0\0\0\1x", FRAME_SERVER, false,
	    "a frame behind the exit frame"),
	ROW("two exits", "\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", FRAME_SERVER, false,
	    "a frame behind the exit frame"),
	ROW("one byte after exit", "\3\0\0\0\0\0\0\0\1", FRAME_SERVER, false,
	    "a frame behind the exit frame"),
	ROW("a missing exit", "\1\0\0\0\0\0\0\1x", FRAME_SERVER, true,
	    "the stream ends without an exit frame"),
	ROW("nothing from a server", "", FRAME_SERVER, true,
	    "the stream ends without an exit frame"),
	ROW("an exit that is cut", "\3\0\0\0\0\0\0\2{", FRAME_SERVER, true,
	    "the stream ends inside a frame: 1 bytes are missing"),
#undef ROW
};

/* Some bytes and the place of the type in them, of what was seen of a stream. */
struct seen {
	struct buf frames; /* the frames again, as our encoder writes them */
	struct buf payload;
	size_t n, unknown;
};

static void seen_done(struct seen *s)
{
	buf_done(&s->frames);
	buf_done(&s->payload);
}

static void take(struct seen *s, const struct frame_part *part)
{
	unsigned char header[FRAME_HEADER_LEN];

	if (part->first)
		s->payload.len = 0;
	(void)buf_add(&s->payload, part->bytes, part->len);
	if (!part->last)
		return;
	frame_header(header, part->type, s->payload.len);
	(void)buf_add(&s->frames, header, sizeof(header));
	(void)buf_add(&s->frames, s->payload.data, s->payload.len);
	s->n++;
	s->unknown += !part->known;
}

/* All of a stream, `step` bytes at a time, each flush against the end of the address space. */
static int decode(struct frame_decoder *d, const char *bytes, size_t len, size_t step,
		  struct seen *ret, struct err *err)
{
	while (len) {
		size_t now = len < step ? len : step, used = 0;
		struct guard g = guard_new(bytes, now);
		ssize_t n = 0;

		while (used < now) {
			struct frame_part part;
			bool some;

			n = frame_decode(d, g.bytes + used, now - used, &some, &part, err);
			if (n <= 0)
				break;
			used += (size_t)n;
			if (some)
				take(ret, &part);
		}
		guard_free(&g);
		if (n <= 0)
			return n < 0 ? (int)n : -EINVAL;
		bytes += now;
		len -= now;
	}
	return 0;
}

static void put_frame(struct buf *out, const struct piece *p)
{
	unsigned char header[FRAME_HEADER_LEN];

	frame_header(header, p->type, p->len);
	(void)buf_add(out, header, sizeof(header));
	for (size_t i = 0; i < p->len; i += p->unit)
		(void)buf_add(out, p->bytes, p->len - i < p->unit ? p->len - i : p->unit);
}

static size_t unknown_in(size_t i)
{
	size_t n = 0;

	for (size_t k = 0; k < good[i].n; k++) {
		uint8_t type = good[i].frame[k].type;

		n += good[i].from == FRAME_SERVER ? type < 1 || type > 3 : type < 4 || type > 5;
	}
	return n;
}

static void test_good(size_t step)
{
	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		auto_buf struct buf stream = { 0 };
		struct frame_decoder d;
		struct seen seen = { 0 };
		struct err err = { 0 };
		int r;

		for (size_t k = 0; k < good[i].n; k++)
			put_frame(&stream, &good[i].frame[k]);
		frame_decoder_init(&d, good[i].from);
		r = decode(&d, stream.data, stream.len, step, &seen, &err);
		if (r == 0)
			r = frame_decode_end(&d, &err);
		ok(r == 0 && seen.n == good[i].n && seen.frames.len == stream.len &&
			   (!stream.len || memcmp(seen.frames.data, stream.data, stream.len) == 0),
		   "%s: %zu frames: %s", good[i].name, good[i].n, err.msg);
		is_int(seen.unknown, unknown_in(i), "%s: unknown types are told", good[i].name);
		seen_done(&seen);
	}
}

static void test_bad(size_t step)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct frame_decoder d;
		struct seen seen = { 0 };
		struct err err = { 0 };
		int r;

		frame_decoder_init(&d, bad[i].from);
		r = decode(&d, bad[i].bytes, bad[i].len, step, &seen, &err);
		is_int(r, bad[i].at_end ? 0 : -EPROTO, "%s: noticed at its place", bad[i].name);
		if (r == 0)
			r = frame_decode_end(&d, &err);
		is_int(r, -EPROTO, "%s: refused", bad[i].name);
		is_str(err.msg, bad[i].said, "%s: in words", bad[i].name);
		seen_done(&seen);
	}
}

/* What is known to the byte, so that the encoder is not only measured by the decoder. */
static void test_bytes(void)
{
	static const char session[] = "\4\0\0\0\0\0\0\10echo hi\n"
				      "\4\0\0\0\0\0\0\5exit\n"
				      "\5\0\0\0\0\0\0\0";
	static const struct piece frame[] = { TEXT(4, "echo hi\n"), TEXT(4, "exit\n"),
					      TEXT(5, "") };
	static const char reserved[] = "\1\1\2\3\0\0\0\1x\3\377\377\377\0\0\0\0";
	auto_buf struct buf out = { 0 };
	unsigned char header[FRAME_HEADER_LEN];
	struct seen seen = { 0 };
	struct frame_decoder d;
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(frame); i++)
		put_frame(&out, &frame[i]);
	ok(out.len == sizeof(session) - 1 && memcmp(out.data, session, out.len) == 0,
	   "stdin_session: byte for byte");
	frame_header(header, FRAME_STDERR, 65536);
	ok(memcmp(header, "\2\0\0\0\0\1\0\0", sizeof(header)) == 0, "a header of 65536");
	frame_header(header, FRAME_STDOUT, 0x1234);
	ok(memcmp(header, "\1\0\0\0\0\0\22\64", sizeof(header)) == 0, "big-endian");

	frame_decoder_init(&d, FRAME_SERVER);
	ok(decode(&d, reserved, sizeof(reserved) - 1, 3, &seen, &err) == 0 &&
		   frame_decode_end(&d, &err) == 0 && seen.n == 2 && seen.frames.len == 17 &&
		   memcmp(seen.frames.data, "\1\0\0\0\0\0\0\1x\3\0\0\0\0\0\0\0", 17) == 0,
	   "reserved bytes that are not 0: %s", err.msg);
	seen_done(&seen);
}

static void test_cut(void)
{
	static const struct {
		uint64_t len;
		unsigned frames;
		size_t last;
	} row[] = {
		{ 1, 1, 1 },
		{ 65535, 1, 65535 },
		{ 65536, 1, 65536 },
		{ 65537, 2, 1 },
		{ 131072, 2, 65536 },
		{ 131077, 3, 5 },
		{ UINT64_C(1) << 33, 131072, 65536 },
	};
	unsigned char header[FRAME_HEADER_LEN] = { 0 }, want[FRAME_HEADER_LEN];

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		uint64_t left = row[i].len;
		unsigned frames = 0;
		size_t len = 0;

		while (left) {
			len = frame_cut(header, FRAME_STDOUT, left);
			left -= len;
			frames++;
		}
		frame_header(want, FRAME_STDOUT, row[i].last);
		ok(frames == row[i].frames && len == row[i].last &&
			   memcmp(header, want, sizeof(want)) == 0,
		   "%llu bytes are %u frames, the last of %zu", (unsigned long long)row[i].len,
		   row[i].frames, row[i].last);
		is_int((long long)frame_size(row[i].len), (long long)row[i].len + 8LL * frames,
		       "and so many bytes");
	}
	is_int((long long)frame_size(0), 0, "nothing is no frame");
}

/* The length is refused with the header's last byte, before any payload; a payload is not waited for. */
static void test_parts(void)
{
	struct frame_decoder d;
	struct frame_part part;
	bool some;

	frame_decoder_init(&d, FRAME_CLIENT);
	is_int(frame_decode(&d, "\4\0\0\0\0\0\0", 7, &some, &part, NULL), 7, "most of a header");
	ok(!some, "is not a frame");
	is_int(frame_decode(&d, NULL, 0, &some, &part, NULL), 0, "nothing more");
	is_int(frame_decode(&d, "\3", 1, &some, &part, NULL), 1, "its last byte");
	ok(some && part.first && !part.last && part.known && part.len == 0, "is");
	is_int(frame_decode(&d, "ab", 2, &some, &part, NULL), 2, "some of the payload");
	ok(some && !part.first && !part.last && part.len == 2 && part.bytes[0] == 'a',
	   "is handed out as it is");
	is_int(frame_decode(&d, "c\5", 2, &some, &part, NULL), 1, "the rest, and no more");
	ok(some && part.last && part.len == 1, "is the last part");
	is_int(frame_decode_end(&d, NULL), 0, "a client may end here");
}

int main(void)
{
	static const size_t step[] = { 1 << 20, 3, 1 };

	for (size_t i = 0; i < ARRAY_SIZE(step); i++) {
		test_good(step[i]);
		test_bad(step[i]);
	}
	test_bytes();
	test_cut();
	test_parts();
	return tap_done();
}
