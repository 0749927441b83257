/* node_doc.c - the table in words: the file `help`, and the FILES section of hutch(5) */
#include <stdio.h>
#include <string.h>

#include "fs/node.h"

#define HELP_COLUMN 22
#define HELP_WIDTH  100

static const char *shown_name(const struct node_def *d)
{
	return d->name ? d->name : d->shown;
}

static void append_shown(enum node_id id, char *out, size_t cap)
{
	size_t len;

	if (id == NODE_ROOT)
		return;
	append_shown(node_table[id].parent, out, cap);
	len = strlen(out);
	(void)snprintf(out + len, cap - len, "/%s", shown_name(&node_table[id]));
}

void node_shown_path(enum node_id id, char *out, size_t cap)
{
	*out = '\0';
	append_shown(id, out, cap);
	if (!*out)
		(void)snprintf(out, cap, "/");
}

/* Words of `text` into lines, each but the first indented. */
static int put_wrapped(struct buf *out, const char *text, int column)
{
	int at = column, r = 0;

	while (*text && r == 0) {
		int len = (int)strcspn(text, " ");

		if (at > column && at + 1 + len > HELP_WIDTH) {
			r = buf_printf(out, "\n%*s", column, "");
			at = column;
		} else if (at > column) {
			r = buf_add(out, " ", 1);
			at++;
		}
		if (r == 0)
			r = buf_add(out, text, (size_t)len);
		at += len;
		text += len;
		text += strspn(text, " ");
	}
	return r < 0 ? r : buf_add(out, "\n", 1);
}

static int help_below(struct buf *out, enum node_id dir, int depth)
{
	int r = 0;

	for (int i = NODE_ROOT + 1; i < NODE_COUNT && r == 0; i++) {
		const struct node_def *d = &node_table[i];
		bool is_dir = S_ISDIR(d->mode);
		int used = 2 * depth + (int)strlen(shown_name(d)) + is_dir;
		int pad = used < HELP_COLUMN ? HELP_COLUMN - used : 2;

		if (d->parent != dir)
			continue;
		r = buf_printf(out, "%*s%s%s%*s", 2 * depth, "", shown_name(d), is_dir ? "/" : "",
			       pad, "");
		if (r == 0)
			r = put_wrapped(out, d->doc, used + pad);
		if (r == 0 && is_dir)
			r = help_below(out, (enum node_id)i, depth + 1);
	}
	return r;
}

static const char help_head[] =
	"hutch gives every sandbox a directory.\n"
	"\n"
	"    mkdir box                          a sandbox, running\n"
	"    echo 'uname -a; id' > box/exec/new a command\n"
	"    cat box/exec/last/stdout           what it said\n"
	"    cat box/exec/last/code             waits for its end, then as $? would be\n"
	"    rmdir box                          gone, processes and all\n"
	"\n"
	"In scripts ask for the name, since `last` is whatever came last:\n"
	"\n"
	"    box=$(mktemp -d ci-XXXXXX)\n"
	"    exec 3<> $box/exec/new; echo make >&3; read -r n <&3; cat $box/exec/$n/stdout\n"
	"\n"
	"What is refused has its reason in the file `error`.  hutch(5) tells the rest.\n"
	"\n";

int node_print_help(struct buf *out)
{
	int r = buf_add(out, help_head, sizeof(help_head) - 1);

	return r < 0 ? r : help_below(out, NODE_ROOT, 0);
}

/* Text for man(7): no line may begin like a request, and a dash is a dash. */
static int put_man(struct buf *out, const char *text)
{
	int r = 0;

	if (*text == '.' || *text == '\'')
		r = buf_add(out, "\\&", 2);
	for (; *text && r == 0; text++) {
		if (*text == '-' || *text == '\\')
			r = buf_printf(out, "\\%c", *text == '-' ? '-' : 'e');
		else
			r = buf_add(out, text, 1);
	}
	return r;
}

static int put_part(struct buf *out, const char *title, const char *text)
{
	int r;

	if (!text)
		return 0;
	r = buf_printf(out, ".br\n.I %s\n", title);
	if (r == 0)
		r = put_man(out, text);
	return r < 0 ? r : buf_add(out, "\n", 1);
}

static const char *type_name(mode_t mode)
{
	if (S_ISDIR(mode))
		return "directory";
	return S_ISLNK(mode) ? "symbolic link" : "file";
}

static int man_row(struct buf *out, enum node_id id)
{
	const struct node_def *d = &node_table[id];
	char path[256];
	int r;

	node_shown_path(id, path, sizeof(path));
	r = buf_add(out, ".TP\n.B ", 7);
	if (r == 0)
		r = put_man(out, path);
	if (r == 0 && S_ISLNK(d->mode))
		r = buf_printf(out, "\n(%s) ", type_name(d->mode));
	else if (r == 0)
		r = buf_printf(out, "\n(%s, mode %04o) ", type_name(d->mode), d->mode & 07777);
	if (r == 0)
		r = put_man(out, d->doc);
	if (r == 0)
		r = buf_add(out, ".\n", 2);
	if (r == 0)
		r = put_part(out, "Reading:", d->reads);
	if (r == 0)
		r = put_part(out, "Writing:", d->writes);
	if (r == 0)
		r = put_part(out, "Errors:", d->errors);
	return r < 0 ? r : put_part(out, "Poll:", d->polls);
}

static int man_below(struct buf *out, enum node_id dir)
{
	int r = 0;

	for (int i = NODE_ROOT + 1; i < NODE_COUNT && r == 0; i++) {
		if (node_table[i].parent != dir)
			continue;
		r = man_row(out, (enum node_id)i);
		if (r == 0 && S_ISDIR(node_table[i].mode))
			r = man_below(out, (enum node_id)i);
	}
	return r;
}

int node_print_man(struct buf *out)
{
	int r = man_row(out, NODE_ROOT);

	return r < 0 ? r : man_below(out, NODE_ROOT);
}
