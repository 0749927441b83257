/* fuzz_ctl.c - lines of a ctl file
 *
 * Besides not crashing: every line has a verb without blanks, nothing lies outside of the text,
 * lines come in their order, and the whole text is used up.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fs/ctl_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool what)
{
	if (!what)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *end, *rest, *line, *before = NULL;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	end = text + strlen(text);
	rest = text;
	while ((line = ctl_next_line(&rest))) {
		char *arg = ctl_cut_argument(line);

		require(line >= text && line > before && arg >= line && arg <= end && rest <= end);
		require(*line && !strpbrk(line, " \t\r\n") && !strchr(arg, '\n'));
		require(!*arg || !strchr(" \t\r", *arg));
		ctl_trim_end(arg);
		require(!*arg || !strchr(" \t\r", arg[strlen(arg) - 1]));
		before = line;
	}
	require(rest == end);
	free(text);
	return 0;
}
