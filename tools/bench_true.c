/* bench_true.c - the command that costs nothing: static, so that starting it is all there is
 *
 *	bench_true		ends at once
 *	bench_true wait		stays until it is killed: what a container needs to be entered
 *	bench_true BYTES	writes so many zeroes to its output, 128 KiB at a time
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK (128 * 1024)

static int produce(unsigned long long left)
{
	static const char zeroes[CHUNK];

	while (left > 0) {
		ssize_t n = write(STDOUT_FILENO, zeroes, left < CHUNK ? (size_t)left : CHUNK);

		if (n < 0)
			return 1;
		left -= (unsigned long long)n;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 0;
	if (strcmp(argv[1], "wait") == 0)
		return pause();
	return produce(strtoull(argv[1], NULL, 10));
}
