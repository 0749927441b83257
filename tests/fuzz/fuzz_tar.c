/* fuzz_tar.c - a tar stream out of a sandbox
 *
 * Besides not crashing: names are strings that are not empty, memory stays within
 * its limits, and data comes exactly as long as it was announced.  A fuzzer does not
 * find checksums, so they are put right in front of the second try.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

struct input {
	const uint8_t *at;
	size_t left;
};

static ssize_t give(void *arg, char *bytes, size_t len, struct err *err)
{
	struct input *in = arg;

	(void)err;
	len = len < in->left ? len : in->left;
	if (len > 0)
		memcpy(bytes, in->at, len);
	in->at += len;
	in->left -= len;
	return (ssize_t)len;
}

static void read_all(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	struct tar_reader t;
	struct tar_entry e;
	char bytes[700];
	bool skip = false;

	tar_reader_init(&t, give, &in);
	while (tar_next(&t, &e, NULL) > 0) {
		uint64_t total = 0;
		ssize_t n = 0;

		require(e.name[0] && strlen(e.name) <= TAR_HEADER_MAX);
		require(strlen(e.link) <= TAR_HEADER_MAX && e.mode <= 07777);
		require(e.mtime.tv_nsec >= 0 && e.mtime.tv_nsec < 1000000000);
		require(e.link[0] || (e.type != TAR_SYMLINK && e.type != TAR_HARDLINK));
		require(t.name.cap + t.link.cap + t.extension.cap <= 8 * TAR_HEADER_MAX);
		while (!skip && (n = tar_data(&t, bytes, sizeof(bytes), NULL)) > 0)
			total += (uint64_t)n;
		require(skip || n < 0 || total == e.size);
		skip = !skip;
	}
	tar_reader_done(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);

	read_all(data, size);
	require(copy != NULL);
	if (size > 0)
		memcpy(copy, data, size);
	for (size_t at = 0; at + TAR_BLOCK <= size; at += TAR_BLOCK) {
		struct tar_header h;
		unsigned sum;

		memcpy(&h, copy + at, sizeof(h));
		if (memcmp(h.magic, "ustar", 5) != 0)
			continue;
		sum = tar_sum(&h);
		for (int i = 5; i >= 0; i--, sum >>= 3)
			h.sum[i] = (char)('0' + (sum & 7));
		h.sum[6] = '\0';
		h.sum[7] = ' ';
		memcpy(copy + at, &h, sizeof(h));
	}
	read_all(copy, size);
	free(copy);
	return 0;
}
