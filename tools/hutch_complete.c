/* hutch_complete.c - what could stand where the last word of a command line stands
 *
 *	hutch __complete WORD...	the words behind `hutch`, the last one as far as typed
 *
 * A line of the answer is CANDIDATE, or CANDIDATE<tab>WHAT-IT-IS; ":files" asks the
 * shell for its own names of files and ":command" for a command line of its own.
 * All of it comes from the tables, so a shell's script has no list.
 */
#include "tools/hutch.h"

#include <stdio.h>
#include <string.h>

#include "base/auto.h"

static bool begins(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void offer(const char *word, const char *doc, const char *prefix)
{
	if (begins(word, prefix))
		printf("%s%s%s\n", word, doc ? "\t" : "", doc ? doc : "");
}

static void offer_options(const struct option_set *set, const char *prefix)
{
	for (size_t i = 0; i < set->n; i++) {
		char word[64];

		(void)snprintf(word, sizeof(word), "--%s", set->def[i].name);
		if (set->def[i].doc)
			offer(word, set->def[i].doc, prefix);
	}
}

/* Is the word in front an option that waits for its argument? */
static bool wants_argument(const struct option_set *set, const char *word)
{
	for (size_t i = 0; i < set->n; i++) {
		const struct option_def *d = &set->def[i];

		if (!d->arg)
			continue;
		if (begins(word, "--") && strcmp(word + 2, d->name) == 0)
			return true;
		if (word[0] == '-' && word[1] == d->letter && d->letter && !word[2])
			return true;
	}
	return false;
}

/* BOX, with what stands behind it; the commands of the box when a slash has been typed. */
static void offer_boxes(const char *prefix, bool commands, const char *suffix)
{
	struct hutch_root root;
	struct hutch_names names = { 0 };
	char box[NAME_MAX_LEN + 1], word[2 * NAME_MAX_LEN + 3];
	size_t len = strcspn(prefix, "/");
	bool inside = commands && prefix[len] && len <= NAME_MAX_LEN;
	auto_close int fd = -1;

	if (hutch_root_open(&root, NULL) < 0)
		return;
	(void)snprintf(box, sizeof(box), "%.*s", inside ? (int)len : 0, prefix);
	if (inside)
		fd = hutch_box_open(&root, box, NULL);
	if (inside ? fd >= 0 && hutch_names_execs(fd, &names) == 0
		   : hutch_names_boxes(&root, &names, NULL) == 0)
		for (size_t i = 0; i < names.n; i++) {
			(void)snprintf(word, sizeof(word), "%s%s%s%s", box, inside ? "/" : "",
				       names.v[i], suffix);
			offer(word, NULL, prefix);
		}
	hutch_names_done(&names);
	hutch_root_done(&root);
}

static void offer_operand(const struct hutch_command *cmd, int before, const char *prefix)
{
	switch (cmd->operand) {
	case HUTCH_OPERAND_NONE:
		break;
	case HUTCH_OPERAND_BOX:
		if (before == 0)
			offer_boxes(prefix, false, "");
		break;
	case HUTCH_OPERAND_EXEC:
		if (before == 0)
			offer_boxes(prefix, true, "");
		break;
	case HUTCH_OPERAND_EXECS:
		offer_boxes(prefix, true, "");
		break;
	case HUTCH_OPERAND_RUN:
		if (before == 0)
			offer_boxes(prefix, false, "");
		offer("--", "then the command", prefix);
		break;
	case HUTCH_OPERAND_COPY:
		if (before < 2) {
			offer_boxes(prefix, false, ":");
			puts(":files");
		}
		break;
	}
}

static const struct hutch_command *find(const struct hutch_command *commands, size_t n,
					const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

int hutch_complete(const struct hutch_command *commands, size_t n, int words, char **word)
{
	const struct hutch_command *cmd = words > 1 ? find(commands, n, word[0]) : NULL;
	const char *last = words > 0 ? word[words - 1] : "";
	int before = 0;

	if (words <= 1 || (words == 2 && strcmp(word[0], "help") == 0)) {
		for (size_t i = 0; i < n; i++)
			offer(commands[i].name, commands[i].doc, last);
		if (words <= 1)
			offer("help", "say more about a command", last);
		return 0;
	}
	if (!cmd)
		return 0;
	for (int i = 1; i < words - 1; i++) {
		if (strcmp(word[i], "--") == 0 && cmd->operand == HUTCH_OPERAND_RUN) {
			puts(":command");
			return 0;
		}
		if (wants_argument(cmd->options, word[i]))
			i++;
		else
			before += word[i][0] != '-';
	}
	if (wants_argument(cmd->options, word[words - 2]))
		puts(":files");
	else if (last[0] == '-')
		offer_options(cmd->options, last);
	if (last[0] != '-' ? !wants_argument(cmd->options, word[words - 2])
			   : cmd->operand == HUTCH_OPERAND_RUN)
		offer_operand(cmd, before, last);
	return 0;
}
