#include "fs/tree.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "base/text.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

#define NODE_BITS     8
#define EXEC_SHIFT    NODE_BITS
#define SANDBOX_SHIFT (EXEC_SHIFT + EXEC_SERIAL_BITS)
_Static_assert(SANDBOX_SHIFT + SANDBOX_SERIAL_BITS == 63, "one bit is left for aliases");

/* Cookies of a listing: the two dots, then the table's rows, then what has serials. */
#define COOKIE_DOT     1
#define COOKIE_DOTDOT  2
#define COOKIE_ROWS    2 /* + node_id */
#define COOKIE_SERIALS 256

void tree_init(struct tree *tree, struct engine *engine, struct ev_loop *loop)
{
	*tree = (struct tree){
		.engine = engine,
		.loop = loop,
		.uid = geteuid(),
		.gid = getegid(),
		.root_mode = 0755,
		.version = "",
	};
	(void)clock_gettime(CLOCK_REALTIME, &tree->started);
	tree->started_ns = ev_now();
	handles_init(&tree->handles);
	users_init(&tree->users);
	refusals_init(&tree->refusals);
	list_init(&tree->ctl_jobs);
}

void tree_done(struct tree *tree)
{
	assert(list_empty(&tree->ctl_jobs));
	handles_done(&tree->handles);
	users_done(&tree->users);
	refusals_done(&tree->refusals);
}

uint64_t tree_ino(const struct node_ref *ref)
{
	uint64_t sandbox = ref->sandbox ? ref->sandbox->serial : 0;
	uint64_t exec = ref->exec ? ref->exec->serial : 0;

	return sandbox << SANDBOX_SHIFT | exec << EXEC_SHIFT | (uint64_t)ref->id;
}

/* How deep a row lies: the root's own, a sandbox's, a command's. */
static enum node_id owner_of(enum node_id id)
{
	while (id != NODE_ROOT && id != NODE_SANDBOX && id != NODE_EXEC)
		id = node_table[id].parent;
	return id;
}

int tree_resolve(struct tree *tree, uint64_t ino, struct node_ref *ret)
{
	uint32_t sandbox = (uint32_t)(ino >> SANDBOX_SHIFT) & ((1U << SANDBOX_SERIAL_BITS) - 1);
	uint32_t exec = (uint32_t)(ino >> EXEC_SHIFT) & ((1U << EXEC_SERIAL_BITS) - 1);
	struct node_ref ref = { .id = (enum node_id)(ino & ((1U << NODE_BITS) - 1)) };
	enum node_id owner;

	if (ino & TREE_INO_ALIAS || ref.id == NODE_NONE || ref.id >= NODE_COUNT)
		return -ESTALE;
	owner = owner_of(ref.id);
	if ((owner != NODE_ROOT) != (sandbox != 0) || (owner == NODE_EXEC) != (exec != 0))
		return -ESTALE;
	if (sandbox) {
		ref.sandbox = sandbox_find_serial(tree->engine, sandbox);
		if (!ref.sandbox || ref.sandbox->removed)
			return -ESTALE;
	}
	if (exec) {
		ref.exec = exec_find_serial(ref.sandbox, exec);
		if (!ref.exec || ref.exec->removed)
			return -ESTALE;
	}
	*ret = ref;
	return 0;
}

static int lookup_entry(struct tree *tree, const struct node_ref *dir, const char *name,
			struct node_ref *ret)
{
	struct node_ref ref = *dir;

	ref.id = node_entries(dir->id);
	switch ((int)ref.id) {
	case NODE_SANDBOX:
		ref.sandbox = sandbox_find(tree->engine, name);
		if (!ref.sandbox)
			return -ENOENT;
		break;
	case NODE_EXEC:
		ref.exec = exec_find(dir->sandbox, name);
		if (!ref.exec)
			return -ENOENT;
		break;
	default:
		return -ENOENT;
	}
	*ret = ref;
	return 0;
}

int tree_lookup(struct tree *tree, const struct node_ref *dir, const char *name, uid_t uid,
		struct node_ref *ret)
{
	struct node_ref ref = *dir;
	char target[TREE_PATH_MAX];
	int r;

	if (!S_ISDIR(node_table[dir->id].mode))
		return -ENOTDIR;
	if (strlen(name) > 255)
		return -ENAMETOOLONG;
	ref.id = node_find(dir->id, name);
	if (ref.id == NODE_NONE)
		return lookup_entry(tree, dir, name, ret);
	if (S_ISLNK(node_table[ref.id].mode)) {
		r = tree_readlink(tree, &ref, uid, target, sizeof(target));
		if (r < 0)
			return r;
	}
	*ret = ref;
	return 0;
}

int tree_readlink(struct tree *tree, const struct node_ref *ref, uid_t uid, char *out, size_t cap)
{
	const struct node_def *def = &node_table[ref->id];

	if (!S_ISLNK(def->mode))
		return -EINVAL;
	return def->target(tree, ref, uid, out, cap);
}

void tree_attr(struct tree *tree, const struct node_ref *ref, const struct caller *who,
	       struct stat *ret)
{
	const struct node_def *def = &node_table[ref->id];
	const struct timespec *when = &tree->started;

	*ret = (struct stat){
		.st_ino = tree_ino(ref),
		.st_mode = def->mode,
		.st_nlink = S_ISDIR(def->mode) ? 2 : 1,
		.st_uid = tree->uid,
		.st_gid = tree->gid,
		.st_blksize = 4096,
	};
	if (ref->sandbox) {
		ret->st_uid = ref->sandbox->uid;
		ret->st_gid = ref->sandbox->gid;
		when = &ref->sandbox->created;
	}
	if (ref->exec)
		when = &ref->exec->created_at;
	ret->st_mtim = ret->st_ctim = ret->st_atim = *when;
	ret->st_blocks = -1;
	if (def->attr)
		def->attr(tree, ref, who, ret);
	if (ret->st_blocks < 0)
		ret->st_blocks = (ret->st_size + 511) / 512;
}

bool tree_may_enter(struct tree *tree, const struct node_ref *ref, const struct caller *who)
{
	struct node_ref gate = { .id = NODE_SANDBOX, .sandbox = ref->sandbox };
	struct stat st;

	if (!ref->sandbox)
		return true;
	tree_attr(tree, &gate, who, &st);
	return access_allowed(&st, who, ACCESS_EXEC);
}

int tree_check_change(const struct node_ref *ref, struct err *err)
{
	const struct sandbox *box = ref->sandbox;

	if (!box || box->state != SANDBOX_QUARANTINED)
		return 0;
	return err_say(err, EPERM,
		       "'%s' is quarantined (%s): it can be read and removed, and nothing else",
		       box->id, box->why.msg);
}

static void append(char *out, size_t cap, const char *part)
{
	size_t len = strlen(out);

	(void)snprintf(out + len, cap - len, "/%s", part);
}

static void append_path(const struct node_ref *ref, enum node_id id, char *out, size_t cap)
{
	const char *name = node_table[id].name;

	if (id == NODE_ROOT)
		return;
	append_path(ref, node_table[id].parent, out, cap);
	if (id == NODE_SANDBOX)
		name = ref->sandbox->id;
	else if (id == NODE_EXEC)
		name = ref->exec->name;
	append(out, cap, name);
}

void tree_path(const struct node_ref *ref, const char *name, char *out, size_t cap)
{
	*out = '\0';
	append_path(ref, ref->id, out, cap);
	if (name)
		append(out, cap, name);
	if (!*out)
		(void)snprintf(out, cap, "/");
}

/* What went wrong on our side, which users can do nothing about. */
static bool is_fault(int code)
{
	return code == EIO || code == ENOMEM || code == ENOSPC || code == ENFILE || code == EPROTO;
}

/* Once a second: what users can cause must not fill the log. It is all in `error`. */
static bool may_log(struct tree *tree)
{
	int64_t now = ev_now();

	if (tree->logged_ns && now - tree->logged_ns < INT64_C(1000000000))
		return false;
	tree->logged_ns = now;
	return true;
}

void tree_refuse(struct tree *tree, uid_t uid, const struct node_ref *ref, const char *name,
		 const struct err *err)
{
	char path[TREE_PATH_MAX + 256];

	tree_path(ref, name, path, sizeof(path));
	refusals_add(&tree->refusals, uid, path, err);
	if (tree->log && is_fault(err->code) && may_log(tree)) {
		auto_buf struct buf line = { 0 };

		if (text_escape(&line, path, strlen(path)) == 0 && buf_printf(&line, ": ") == 0 &&
		    text_escape(&line, err->msg, strlen(err->msg)) == 0)
			tree->log(LOG_WARNING, line.data);
	}
}

/* The next row of the table that is listed in `dir`. */
static bool next_row(struct tree *tree, const struct node_ref *dir, const struct caller *who,
		     uint64_t *cookie, struct tree_entry *ret)
{
	uint64_t from = *cookie < COOKIE_ROWS ? 0 : *cookie - COOKIE_ROWS;

	for (uint64_t i = from + 1; i < NODE_COUNT; i++) {
		const struct node_def *def = &node_table[i];
		struct node_ref ref = *dir;
		char target[TREE_PATH_MAX];

		ref.id = (enum node_id)i;
		if (def->parent != dir->id || !def->name)
			continue;
		if (S_ISLNK(def->mode) &&
		    tree_readlink(tree, &ref, who->uid, target, sizeof(target)) < 0)
			continue;
		*ret = (struct tree_entry){ def->name, tree_ino(&ref), def->mode };
		*cookie = COOKIE_ROWS + i;
		return true;
	}
	return false;
}

static bool next_sandbox(struct tree *tree, const struct caller *who, uint64_t *cookie,
			 struct tree_entry *ret)
{
	uint32_t after = (uint32_t)(*cookie - COOKIE_SERIALS);
	struct node_ref ref = { .id = NODE_SANDBOX };

	while ((ref.sandbox = sandbox_next(tree->engine, after))) {
		after = ref.sandbox->serial;
		if (!tree_may_enter(tree, &ref, who))
			continue;
		*ret = (struct tree_entry){ ref.sandbox->id, tree_ino(&ref), S_IFDIR };
		*cookie = COOKIE_SERIALS + (uint64_t)after;
		return true;
	}
	return false;
}

static bool next_exec(const struct node_ref *dir, uint64_t *cookie, struct tree_entry *ret)
{
	struct node_ref ref = { .id = NODE_EXEC, .sandbox = dir->sandbox };

	ref.exec = exec_next(dir->sandbox, (uint32_t)(*cookie - COOKIE_SERIALS));
	if (!ref.exec)
		return false;
	*ret = (struct tree_entry){ ref.exec->name, tree_ino(&ref), S_IFDIR };
	*cookie = COOKIE_SERIALS + (uint64_t)ref.exec->serial;
	return true;
}

static struct node_ref parent_of(const struct node_ref *ref)
{
	struct node_ref up = *ref;

	up.id = ref->id == NODE_ROOT ? NODE_ROOT : node_table[ref->id].parent;
	if (ref->id == NODE_SANDBOX)
		up.sandbox = NULL;
	else if (ref->id == NODE_EXEC)
		up.exec = NULL;
	return up;
}

bool tree_next(struct tree *tree, const struct node_ref *dir, const struct caller *who,
	       uint64_t *cookie, struct tree_entry *ret)
{
	if (*cookie < COOKIE_DOT) {
		*ret = (struct tree_entry){ ".", tree_ino(dir), S_IFDIR };
		*cookie = COOKIE_DOT;
		return true;
	}
	if (*cookie < COOKIE_DOTDOT) {
		struct node_ref up = parent_of(dir);

		*ret = (struct tree_entry){ "..", tree_ino(&up), S_IFDIR };
		*cookie = COOKIE_DOTDOT;
		return true;
	}
	if (*cookie < COOKIE_SERIALS) {
		if (next_row(tree, dir, who, cookie, ret))
			return true;
		*cookie = COOKIE_SERIALS;
	}
	switch ((int)node_entries(dir->id)) {
	case NODE_SANDBOX:
		return next_sandbox(tree, who, cookie, ret);
	case NODE_EXEC:
		return next_exec(dir, cookie, ret);
	default:
		return false;
	}
}
