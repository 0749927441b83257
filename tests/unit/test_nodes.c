/* The table of the tree, and inode numbers. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "fs/access.h"
#include "fs/refusals.h"
#include "fs/tree.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"
#include "tests/unit/tap.h"

static void test_table(void)
{
	const char *fault = node_table_check();

	ok(!fault, "the table has no fault: %s", fault ? fault : "none");
	ok(node_table[NODE_ROOT].parent == NODE_NONE, "the root has no parent");
	for (int i = NODE_ROOT; i < NODE_COUNT; i++)
		ok(node_table[i].doc && !strchr(node_table[i].doc, '\n'),
		   "row %d has one line of doc", i);
}

static void test_names(void)
{
	static const struct {
		enum node_id parent;
		const char *name;
		enum node_id want;
	} row[] = {
		{ NODE_ROOT, "help", NODE_HELP },
		{ NODE_ROOT, "new", NODE_NEW },
		{ NODE_EXECS, "new", NODE_EXEC_NEW },
		{ NODE_SANDBOX, "ctl", NODE_CTL },
		{ NODE_EXEC, "ctl", NODE_EXEC_CTL },
		{ NODE_EXEC, "result.json", NODE_EXEC_RESULT },
		{ NODE_ROOT, "stats.json", NODE_STATS },
		{ NODE_EXECS, "keep", NODE_EXEC_KEEP },
		{ NODE_ROOT, "stdin", NODE_NONE },
		{ NODE_ROOT, "", NODE_NONE },
		{ NODE_ROOT, "hel", NODE_NONE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++)
		is_int(node_find(row[i].parent, row[i].name), row[i].want, "'%s' below row %d",
		       row[i].name, row[i].parent);
	is_int(node_entries(NODE_ROOT), NODE_SANDBOX, "the root's entries are sandboxes");
	is_int(node_entries(NODE_EXECS), NODE_EXEC, "those of exec/ are commands");
	is_int(node_entries(NODE_EXEC), NODE_NONE, "a command has none");
	ok(node_reserved("secrets") && node_reserved("images"), "later names are reserved");
	ok(!node_reserved("box"), "others are not");
}

static void test_paths(void)
{
	struct sandbox box = { .serial = 5, .id = "box" };
	struct exec exec = { .serial = 9, .name = "7" };
	struct node_ref ref = { NODE_EXEC_STDIN, &box, &exec };
	char path[TREE_PATH_MAX];

	tree_path(&ref, NULL, path, sizeof(path));
	is_str(path, "/box/exec/7/stdin", "a node's path");
	ref.id = NODE_EXECS;
	tree_path(&ref, "x", path, sizeof(path));
	is_str(path, "/box/exec/x", "a name in a directory");
	ref = (struct node_ref){ .id = NODE_ROOT };
	tree_path(&ref, NULL, path, sizeof(path));
	is_str(path, "/", "the root");
	tree_path(&ref, "x", path, sizeof(path));
	is_str(path, "/x", "a name in the root");
	node_shown_path(NODE_EXEC_CTL, path, sizeof(path));
	is_str(path, "/ID/exec/N/ctl", "a path in documents");
}

static void test_inodes(void)
{
	struct sandbox box = { .serial = (1U << SANDBOX_SERIAL_BITS) - 1 };
	struct exec exec = { .serial = (1U << EXEC_SERIAL_BITS) - 1 };
	struct node_ref ref = { .id = NODE_ROOT };

	is_int(tree_ino(&ref), TREE_INO_ROOT, "the root is 1");
	ref = (struct node_ref){ NODE_EXEC_CTL, &box, &exec };
	ok(!(tree_ino(&ref) & TREE_INO_ALIAS), "the largest serials leave the alias bit alone");
	is_int(tree_ino(&ref) & 0xff, NODE_EXEC_CTL, "the node is the low byte");
	is_int(tree_ino(&ref) >> 8 & ((1U << 28) - 1), exec.serial, "then the command");
	is_int(tree_ino(&ref) >> 36, box.serial, "then the sandbox");
}

/* Numbers that stand for nothing, whoever sends them: no engine is asked. */
static void test_bad_inodes(void)
{
	static const uint64_t bad[] = {
		0,
		NODE_COUNT,
		255,
		TREE_INO_ALIAS | NODE_ROOT,
		UINT64_MAX,
		NODE_SANDBOX,                       /* no sandbox */
		UINT64_C(1) << 36 | NODE_HELP,      /* a sandbox's help */
		UINT64_C(1) << 8 | NODE_ROOT,       /* a command's root */
		UINT64_C(1) << 36 | NODE_EXEC_CODE, /* no command */
		UINT64_C(1) << 36 | 1 << 8 | NODE_STATE,
	};
	struct tree tree = { 0 };
	struct node_ref ref;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		is_int(tree_resolve(&tree, bad[i], &ref), -ESTALE, "inode %#llx",
		       (unsigned long long)bad[i]);
	is_int(tree_resolve(&tree, TREE_INO_ROOT, &ref), 0, "the root is there");
}

/* More than are asked for at first. */
static int many_groups(const struct caller *who, gid_t *out, int cap)
{
	(void)who;
	for (int i = 0; i < 100 && i < cap; i++)
		out[i] = i == 99 ? 7 : 1000 + (gid_t)i;
	return 100;
}

static void test_access(void)
{
	static const struct {
		uid_t uid;
		gid_t gid;
		mode_t mode;
		unsigned want;
		bool allowed;
		const char *what;
	} row[] = {
		{ 5, 1, 0700, ACCESS_EXEC, true, "the owner enters" },
		{ 5, 1, 0077, ACCESS_EXEC, false, "the owner's class decides for the owner" },
		{ 6, 6, 0700, ACCESS_EXEC, false, "another does not" },
		{ 6, 6, 0710, ACCESS_EXEC, false, "nor by a group that is not his" },
		{ 6, 9, 0710, ACCESS_EXEC, true, "the primary group" },
		{ 6, 9, 0701, ACCESS_EXEC, false, "the group's class decides for the group" },
		{ 6, 6, 0701, ACCESS_EXEC, true, "others" },
		{ 0, 0, 0000, ACCESS_READ, true, "root" },
		{ 5, 1, 0440, ACCESS_READ | ACCESS_WRITE, false, "all that is wanted or nothing" },
	};
	struct stat st = { .st_uid = 5, .st_gid = 9 };
	struct caller who = { .uid = 6, .gid = 6, .groups = many_groups };

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		const struct caller c = { .uid = row[i].uid, .gid = row[i].gid };

		st.st_mode = S_IFDIR | row[i].mode;
		is_int(access_allowed(&st, &c, row[i].want), row[i].allowed, "%s", row[i].what);
	}
	st.st_gid = 7;
	st.st_mode = 0070;
	ok(access_allowed(&st, &who, ACCESS_READ), "a supplementary group");
	st.st_mode = S_IFDIR | 0777;
	who.uid = ACCESS_NOBODY;
	is_int(access_change_dir(&st, &who, NULL), -EPERM, "nobody makes nothing");
}

/* Reading and rmdir are all that is left of it. */
static void test_quarantine(void)
{
	static const struct {
		enum node_id id;
		int flags, want;
	} row[] = {
		{ NODE_CTL, O_WRONLY, -EPERM },    { NODE_HOLD, O_WRONLY, -EPERM },
		{ NODE_EXEC_NEW, O_RDWR, -EPERM }, { NODE_EXEC_KEEP, O_WRONLY | O_TRUNC, -EPERM },
		{ NODE_EXEC_KEEP, O_RDONLY, 0 },   { NODE_STATE, O_RDONLY, 0 },
		{ NODE_SPEC, O_RDONLY, 0 },
	};
	struct sandbox box = { .refs = 2,
			       .serial = 5,
			       .id = "box",
			       .mode = 0700,
			       .state = SANDBOX_QUARANTINED,
			       .why = { EPROTO, "it lied" } };
	const struct caller root = { .uid = 0 };
	struct node_ref ref = { .id = NODE_EXECS, .sandbox = &box }, made;
	struct stat to = { .st_mode = 0777 };
	struct err err = { 0 };
	struct tree tree;

	tree_init(&tree, NULL, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct handle *h = NULL;

		ref.id = row[i].id;
		is_int(tree_open(&tree, &ref, &root, row[i].flags, &h, &err), row[i].want,
		       "quarantined: open %s: %s", node_table[ref.id].name, err.msg);
		if (h)
			handle_close(h);
	}
	ref.id = NODE_EXECS;
	is_int(tree_mkdir(&tree, &ref, "x", &root, &made, &err), -EPERM, "mkdir: %s", err.msg);
	ok(strstr(err.msg, "it lied"), "the sentence says why");
	ref.id = NODE_SANDBOX;
	is_int(tree_setattr(&tree, &ref, &root, &to, TREE_SET_MODE, &err), -EPERM, "chmod");
	is_int(tree_setattr(&tree, &ref, &root, &to, TREE_SET_UID, &err), -EPERM, "chown");
	is_int(box.refs, 2, "no reference is left");
	tree_done(&tree);
}

static void test_refusals(void)
{
	struct refusals r;
	struct err err = { 0 };
	auto_buf struct buf out = { 0 };
	int lines = 0;

	refusals_init(&r);
	for (int i = 0; i < REFUSALS_KEPT + 4; i++) {
		err_say(&err, EINVAL, "number %d\nof many", i);
		refusals_add(&r, 1000, "/box/exec/new", &err);
	}
	err_say(&err, EPERM, "other");
	refusals_add(&r, 1001, "/x y\n", &err);
	is_int(refusals_print(&r, 1000, &out), 0, "printed");
	for (const char *p = out.data; p && *p; p++)
		lines += *p == '\n';
	is_int(lines, REFUSALS_KEPT, "as many as are kept, a line each");
	ok(strstr(out.data, " /box/exec/new EINVAL number 19\\nof many\n") == out.data + 24,
	   "the newest is first, escaped");
	ok(!strstr(out.data, "number 3\\n") && strstr(out.data, "number 4\\n"), "the oldest went");
	ok(!strstr(out.data, "other"), "each sees his own");
	buf_done(&out);
	is_int(refusals_print(&r, 1001, &out), 0, "printed");
	is_str(out.data + 24, " /x\\x20y\\n EPERM other\n", "a path is one word");
	for (uid_t uid = 1; uid < REFUSALS_USERS_MAX + 10; uid++)
		refusals_add(&r, 5000 + uid, "/x", &err);
	is_int((long long)r.count, REFUSALS_USERS_MAX, "users are bounded");
	buf_done(&out);
	is_int(refusals_print(&r, 1001, &out), 0, "printed");
	is_int((long long)out.len, 0, "who was refused longest ago is forgotten");
	refusals_done(&r);
}

static void test_documents(void)
{
	auto_buf struct buf help = { 0 }, man = { 0 };

	is_int(node_print_help(&help), 0, "help");
	is_int(node_print_man(&man), 0, "the man page's section");
	for (int i = NODE_ROOT + 1; i < NODE_COUNT; i++) {
		const char *name = node_table[i].name ? node_table[i].name : node_table[i].shown;

		ok(strstr(help.data, name), "help names %s", name);
	}
	ok(strstr(man.data, ".B /ID/exec/N/stdin\n"), "the man page has paths");
	for (const char *line = man.data; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strlen(line) && *line == '.' && !strchr("TBIb", line[1]))
			ok(0, "a line that man(7) takes for a request: %.20s", line);
	}
}

int main(void)
{
	test_table();
	test_names();
	test_paths();
	test_inodes();
	test_bad_inodes();
	test_access();
	test_quarantine();
	test_refusals();
	test_documents();
	return tap_done();
}
