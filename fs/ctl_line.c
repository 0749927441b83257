#include "fs/ctl_line.h"

#include <string.h>

#define BLANKS " \t\r"

char *ctl_next_line(char **text)
{
	while (**text) {
		char *line = *text + strspn(*text, BLANKS "\n");
		size_t len = strcspn(line, "\n");

		*text = line[len] ? line + len + 1 : line + len;
		line[len] = '\0';
		if (len)
			return line;
	}
	return NULL;
}

char *ctl_cut_argument(char *line)
{
	size_t len = strcspn(line, BLANKS);
	char *arg = line + len + strspn(line + len, BLANKS);

	line[len] = '\0';
	return arg;
}

void ctl_trim_end(char *text)
{
	size_t len = strlen(text);

	while (len && strchr(BLANKS, text[len - 1]))
		text[--len] = '\0';
}
