/* tar_read.c - reading tar: see tar.h */
#include "tools/tar.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/auto.h"

#define TIME_MAX ((int64_t)1 << 40) /* seconds either way: some 30 000 years */

unsigned tar_sum(const struct tar_header *h)
{
	const unsigned char *bytes = (const unsigned char *)h;
	unsigned sum = 0;

	for (size_t i = 0; i < TAR_BLOCK; i++) {
		bool own = i >= offsetof(struct tar_header, sum) &&
			   i < offsetof(struct tar_header, type);

		sum += own ? ' ' : bytes[i];
	}
	return sum;
}

void tar_reader_init(struct tar_reader *t,
		     ssize_t (*read)(void *arg, char *bytes, size_t len, struct err *), void *arg)
{
	*t = (struct tar_reader){ .read = read, .arg = arg };
	buf_init(&t->name, TAR_HEADER_MAX);
	buf_init(&t->link, TAR_HEADER_MAX);
	buf_init(&t->extension, TAR_HEADER_MAX);
}

void tar_reader_done(struct tar_reader *t)
{
	buf_done(&t->name);
	buf_done(&t->link);
	buf_done(&t->extension);
}

static int malformed(struct err *err, const char *what)
{
	return err_say(err, EPROTO, "the tar stream is malformed: %s", what);
}

/* All of it; 1: the stream ended in front of its first byte. */
static int read_full(struct tar_reader *t, char *bytes, size_t len, struct err *err)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = t->read(t->arg, bytes + done, len - done, err);

		if (n < 0)
			return (int)n;
		if (n == 0 && done == 0)
			return 1;
		if (n == 0)
			return malformed(err, "it ends within a block");
		done += (size_t)n;
	}
	return 0;
}

/* ---- numbers ---- */

/* Octal digits between spaces and NULs, or GNU's base 256 with the first bit set. */
static bool take_number(const char *field, size_t len, int64_t *ret)
{
	const unsigned char *bytes = (const unsigned char *)field;
	uint64_t value = 0;
	size_t i = 0;

	if (bytes[0] == 0x80) {
		for (i = 1; i < len; i++) {
			if (value >> 55)
				return false;
			value = value << 8 | bytes[i];
		}
		*ret = (int64_t)value;
		return true;
	}
	while (i < len && bytes[i] == ' ')
		i++;
	for (; i < len && bytes[i] >= '0' && bytes[i] <= '7'; i++) {
		if (value >> 60)
			return false;
		value = value << 3 | (uint64_t)(bytes[i] - '0');
	}
	*ret = (int64_t)value;
	for (; i < len; i++)
		if (bytes[i] != ' ' && bytes[i] != '\0')
			return false;
	return true;
}

static bool take_decimal(const char *text, size_t len, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (len == 0)
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned digit = (unsigned)(unsigned char)text[i] - '0';

		if (digit > 9 || value > (max - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*ret = value;
	return true;
}

/* [-]SECONDS[.FRACTION] */
static bool take_time(const char *text, size_t len, struct timespec *ret)
{
	bool negative = len > 0 && *text == '-';
	const char *end = text + len, *dot;
	long nsec = 0, unit = 100000000;
	uint64_t sec;

	text += negative;
	dot = memchr(text, '.', (size_t)(end - text));
	if (!take_decimal(text, (size_t)((dot ? dot : end) - text), (uint64_t)TIME_MAX, &sec))
		return false;
	for (const char *p = dot ? dot + 1 : end; p < end; p++, unit /= 10) {
		if (*p < '0' || *p > '9')
			return false;
		nsec += (*p - '0') * unit;
	}
	*ret = (struct timespec){ negative ? -(time_t)sec : (time_t)sec, nsec };
	if (negative && nsec > 0) {
		ret->tv_sec--;
		ret->tv_nsec = 1000000000 - nsec;
	}
	return true;
}

/* ---- extensions ---- */

static int set_text(struct buf *buf, const char *text, size_t len, struct err *err)
{
	if (memchr(text, '\0', len))
		return malformed(err, "a name holds a NUL");
	buf->len = 0;
	return buf_add(buf, text, len) < 0 ? err_set(err, ENOMEM, "a name of the tar stream") : 0;
}

static int take_record(struct tar_reader *t, const char *key, size_t key_len, const char *value,
		       size_t len, struct err *err)
{
#define KEY_IS(name) (key_len == sizeof(name) - 1 && memcmp(key, name, key_len) == 0)
	if (KEY_IS("path")) {
		t->have_name = true;
		return set_text(&t->name, value, len, err);
	}
	if (KEY_IS("linkpath")) {
		t->have_link = true;
		return set_text(&t->link, value, len, err);
	}
	if (KEY_IS("size")) {
		t->have_size = true;
		return take_decimal(value, len, INT64_MAX, &t->size) ? 0 : malformed(err, "a size");
	}
	if (KEY_IS("mtime")) {
		t->have_mtime = true;
		return take_time(value, len, &t->mtime) ? 0 : malformed(err, "a time");
	}
	if (key_len >= 11 && memcmp(key, "GNU.sparse.", 11) == 0)
		return malformed(err, "a sparse file, which was not asked for");
	return 0;
#undef KEY_IS
}

/* "LENGTH KEY=VALUE\n", where LENGTH counts all of it. */
static int take_pax(struct tar_reader *t, const char *at, size_t left, struct err *err)
{
	while (left > 0) {
		const char *space = memchr(at, ' ', left), *equals;
		uint64_t len;
		int r;

		if (!space || !take_decimal(at, (size_t)(space - at), left, &len) ||
		    len < (size_t)(space - at) + 4 || at[len - 1] != '\n')
			return malformed(err, "a pax record's length");
		space++;
		equals = memchr(space, '=', (size_t)(at + len - space));
		if (!equals)
			return malformed(err, "a pax record without '='");
		r = take_record(t, space, (size_t)(equals - space), equals + 1,
				(size_t)(at + len - 1 - equals - 1), err);
		if (r < 0)
			return r;
		at += len;
		left -= (size_t)len;
	}
	return 0;
}

/* Reads the data of an extension, with its padding, into t->extension. */
static int read_extension(struct tar_reader *t, int64_t size, struct err *err)
{
	size_t len = (size_t)size;
	int r;

	if (size < 0 || size > TAR_HEADER_MAX - TAR_BLOCK)
		return malformed(err, "an extended header that is too large");
	t->extension.len = 0;
	len = (len + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
	if (buf_reserve(&t->extension, len + 1) < 0)
		return err_set(err, ENOMEM, "a header of the tar stream");
	r = read_full(t, t->extension.data, len, err);
	if (r != 0 && len > 0)
		return r < 0 ? r : malformed(err, "it ends within a header");
	t->extension.len = (size_t)size;
	return 0;
}

static int take_extension(struct tar_reader *t, char type, int64_t size, struct err *err)
{
	struct buf *to = type == 'L' ? &t->name : &t->link;
	int r = read_extension(t, size, err);

	if (r < 0 || type == 'g') /* nothing in a global header is of use here */
		return r;
	if (type == 'x')
		return take_pax(t, t->extension.data, t->extension.len, err);
	*(type == 'L' ? &t->have_name : &t->have_link) = true;
	return set_text(to, t->extension.data, strnlen(t->extension.data, t->extension.len), err);
}

/* ---- entries ---- */

static enum tar_type type_of(char type, const struct buf *name)
{
	switch (type) {
	case '\0': /* before POSIX a directory was known by its slash */
		return name->len > 0 && name->data[name->len - 1] == '/' ? TAR_DIR : TAR_FILE;
	case '0':
	case '7':
		return TAR_FILE;
	case '1':
		return TAR_HARDLINK;
	case '2':
		return TAR_SYMLINK;
	case '5':
		return TAR_DIR;
	default:
		return TAR_OTHER;
	}
}

static int take_names(struct tar_reader *t, const struct tar_header *h, struct err *err)
{
	bool ustar = memcmp(h->magic, "ustar\00000", 8) == 0;
	int r = 0;

	if (!t->have_name) {
		t->name.len = 0;
		if (ustar && h->prefix[0] &&
		    buf_printf(&t->name, "%.*s/", (int)sizeof(h->prefix), h->prefix) < 0)
			return err_set(err, ENOMEM, "a name of the tar stream");
		r = buf_add(&t->name, h->name, strnlen(h->name, sizeof(h->name)));
	}
	if (r == 0 && !t->have_link) {
		t->link.len = 0;
		r = buf_add(&t->link, h->link, strnlen(h->link, sizeof(h->link)));
	}
	if (r < 0)
		return err_set(err, ENOMEM, "a name of the tar stream");
	return t->name.len > 0 ? 0 : malformed(err, "an entry without a name");
}

static int take_entry(struct tar_reader *t, const struct tar_header *h, int64_t size,
		      struct tar_entry *ret, struct err *err)
{
	int64_t mode, mtime;
	int r = take_names(t, h, err);

	if (r < 0)
		return r;
	if (!take_number(h->mode, sizeof(h->mode), &mode))
		return malformed(err, "a mode");
	if (h->mtime[0] == (char)0xff) /* before 1970, in GNU's form */
		mtime = 0;
	else if (!take_number(h->mtime, sizeof(h->mtime), &mtime) || mtime > TIME_MAX)
		return malformed(err, "a time");
	*ret = (struct tar_entry){ .type = type_of(h->type, &t->name),
				   .name = t->name.data,
				   .mode = (mode_t)mode & 07777,
				   .size = t->have_size ? t->size : (uint64_t)size,
				   .mtime = { .tv_sec = mtime } };
	if (t->have_mtime)
		ret->mtime = t->mtime;
	if (strchr("23456", h->type) && h->type) /* POSIX: their size says nothing */
		ret->size = 0;
	ret->link = t->link.len > 0 ? t->link.data : "";
	if ((ret->type == TAR_SYMLINK || ret->type == TAR_HARDLINK) && !*ret->link)
		return malformed(err, "a link to nothing");
	t->left = ret->size;
	t->padding = (TAR_BLOCK - ret->size % TAR_BLOCK) % TAR_BLOCK;
	t->have_name = t->have_link = t->have_size = t->have_mtime = false;
	return 1;
}

static int skip_data(struct tar_reader *t, struct err *err)
{
	char bytes[16 * 1024];
	ssize_t n;

	while ((n = tar_data(t, bytes, sizeof(bytes), err)) > 0)
		;
	return (int)n;
}

static bool is_zero(const struct tar_header *h)
{
	const char *bytes = (const char *)h;

	return bytes[0] == '\0' && memcmp(bytes, bytes + 1, TAR_BLOCK - 1) == 0;
}

int tar_next(struct tar_reader *t, struct tar_entry *ret, struct err *err)
{
	struct tar_header h;
	int64_t size, sum;
	int r = skip_data(t, err);

	while (r == 0) {
		r = read_full(t, (char *)&h, sizeof(h), err);
		if (r > 0)
			return err_say(err, ENODATA, "the tar stream ends too early");
		if (r < 0 || is_zero(&h))
			return r;
		if (!take_number(h.sum, sizeof(h.sum), &sum) || sum != tar_sum(&h))
			return malformed(err, "a checksum is wrong");
		if (!take_number(h.size, sizeof(h.size), &size))
			return malformed(err, "a size");
		if (!h.type || !strchr("xgLK", h.type))
			return take_entry(t, &h, size, ret, err);
		r = take_extension(t, h.type, size, err);
	}
	return r;
}

ssize_t tar_data(struct tar_reader *t, char *bytes, size_t len, struct err *err)
{
	char padding[TAR_BLOCK];
	ssize_t n;

	if (t->left == 0) {
		int r = read_full(t, padding, t->padding, err);

		if (r > 0 && t->padding > 0)
			return malformed(err, "it ends within a block");
		t->padding = 0;
		return r < 0 ? r : 0;
	}
	n = t->read(t->arg, bytes, len < t->left ? len : (size_t)t->left, err);
	if (n == 0)
		return malformed(err, "it ends within a file");
	if (n > 0)
		t->left -= (uint64_t)n;
	return n;
}
