/* What the kernel is told to forget after a change of owner, and when the change is answered. */
#include "fs/fuse-internal.h"
#include "sandbox/exec.h"
#include "tests/unit/engine.h"

/* Stands for libfuse: what the kernel is told, and what is answered. */
static uint64_t told[100000];
static size_t told_n;
static long told_ns; /* how long each takes */
static fuse_req_t answered[16];
static size_t answered_n, answered_at[16]; /* told_n then */
static const char requests[16];

int fuse_lowlevel_notify_inval_inode(struct fuse_session *se, fuse_ino_t ino, off_t off, off_t len)
{
	int64_t end = ev_now() + told_ns;

	(void)se;
	(void)len;
	if (told_n < ARRAY_SIZE(told) && off == -1) /* attributes, not data */
		told[told_n++] = ino;
	while (told_ns && ev_now() < end)
		;
	return 0;
}

static int note_answer(fuse_req_t req)
{
	answered_at[answered_n] = told_n;
	answered[answered_n++] = req;
	return 0;
}

int fuse_reply_attr(fuse_req_t req, const struct stat *st, double timeout)
{
	(void)st;
	(void)timeout;
	return note_answer(req);
}

int fuse_reply_err(fuse_req_t req, int err)
{
	(void)err;
	return note_answer(req);
}

const struct fuse_ctx *fuse_req_ctx(fuse_req_t req)
{
	static const struct fuse_ctx root = { 0 };

	(void)req;
	return &root;
}

/* The nth request that waits. */
static fuse_req_t request(size_t n)
{
	union {
		const char *byte;
		fuse_req_t req;
	} u = { .byte = &requests[n] };

	return u.req;
}

static struct tree tree;
static struct fuse_server srv = { .tree = &tree, .loop = &loop };

static struct sandbox *box_with(struct engine *eng, const char *id, int nodes)
{
	struct sandbox *sb = make_box(eng, id);
	char name[32];
	int made = 0;

	(void)turn_until(sb->state == SANDBOX_RUNNING);
	for (int i = 0; i < nodes; i++) {
		(void)snprintf(name, sizeof(name), "n%d", i);
		made += exec_mkdir(sb, name, 0, &(struct exec *){ NULL }, NULL) == 0;
	}
	is_int(made, nodes, "box '%s' has nodes", id);
	return sb;
}

static void finish(void)
{
	(void)turn_until(list_empty(&srv.inval));
}

/* Forgets what was told and answered. */
static void begin(long ns)
{
	finish();
	told_n = answered_n = 0;
	told_ns = ns;
}

static void change(struct sandbox *sb)
{
	tree.owner_changed(&tree, sb);
}

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Were these all different? */
static bool different(size_t from, size_t n)
{
	qsort(told + from, n, sizeof(*told), by_number);
	for (size_t i = from + 1; i < from + n; i++)
		if (told[i] == told[i - 1])
			return false;
	return true;
}

/* Once, and how much that is. */
static size_t test_once(struct sandbox *sb)
{
	begin(0);
	change(sb);
	is_int((long long)told_n, 0, "once: not from the handler of a request");
	finish();
	ok(told_n > 100 && different(0, told_n), "once: each node of the box");
	return told_n;
}

static void test_many_changes(struct sandbox *sb, size_t all)
{
	size_t before;

	begin(0);
	for (int i = 0; i < 10; i++)
		change(sb);
	finish();
	ok(told_n == all && different(0, all), "ten changes that nobody waits for are told as one");

	begin(0);
	change(sb);
	(void)ev_turn(&loop, 0);
	before = told_n;
	ok(before > 0 && before < all, "half of a change is told");
	change(sb);
	finish();
	ok(told_n == before + all && different(before, all),
	   "a change that comes then is told from the beginning, and only that");
}

static void test_answers(struct sandbox *sb, size_t all)
{
	begin(0);
	ok(!fuse_inval_answer(&srv, request(0), sb), "answer: of no change");
	change(sb);
	ok(fuse_inval_answer(&srv, request(0), sb), "answer: of a change: waits");
	ok(!fuse_inval_answer(&srv, request(1), sb), "answer: one of each change");
	change(sb);
	ok(fuse_inval_answer(&srv, request(1), sb), "answer: of the next");
	change(sb);
	change(sb);
	finish();
	ok(answered_n == 2 && answered[0] == request(0) && answered[1] == request(1),
	   "answer: each once, in order");
	ok(answered_at[0] >= all && answered_at[1] >= 2 * all,
	   "answer: when all has been told: at %zu and %zu of %zu", answered_at[0], answered_at[1],
	   all);
	is_int((long long)told_n, (long long)(3 * all), "answer: the others are told as one");

	begin(0);
	change(sb);
	(void)ev_turn(&loop, 0);
	ok(!fuse_inval_answer(&srv, request(0), sb), "answer: not of one that has begun");
}

/* Each takes so long that all of them take half a second. */
static void test_slow(struct sandbox *sb, size_t all)
{
	int64_t from = ev_now();

	begin(500000000L / (long)all);
	change(sb);
	ok(fuse_inval_answer(&srv, request(0), sb), "slow: waits");
	(void)turn_until(answered_n == 1);
	ok(answered_at[0] < all, "slow: is answered before all has been told: %zu of %zu, %d ms",
	   answered_at[0], all, (int)((ev_now() - from) / 1000000));
	finish();
	ok(told_n == all && different(0, all), "slow: the rest goes on behind");
	is_int((long long)answered_n, 1, "slow: answered once");
}

static void test_turns(struct sandbox *a, struct sandbox *b, size_t all)
{
	begin(0);
	change(a);
	change(b);
	ok(fuse_inval_answer(&srv, request(0), b), "turns: the small one waits");
	finish();
	ok(answered_n == 1 && answered_at[0] < all, "turns: not for all of the large one");
}

static void test_removed(struct engine *eng)
{
	struct sandbox *sb = sandbox_ref(box_with(eng, "removed", 3));

	begin(0);
	sandbox_remove(sb);
	fuse_inval_queue(&srv, sb);
	ok(fuse_inval_answer(&srv, request(0), sb), "removed: a change of before waits");
	finish();
	ok(told_n > NODE_COUNT / 2 && answered_n == 1, "removed: its files are forgotten: %zu",
	   told_n);
	sandbox_unref(sb);
}

int main(void)
{
	struct engine *eng;
	struct sandbox *large, *small;
	size_t all;

	engine_test_begin();
	eng = open_engine();
	tree_init(&tree, eng, &loop);
	fuse_inval_init(&srv);
	large = box_with(eng, "large", 300);
	small = box_with(eng, "small", 1);
	all = test_once(large);
	test_many_changes(large, all);
	test_answers(large, all);
	test_slow(large, all);
	test_turns(large, small, all);
	test_removed(eng);
	begin(0);
	change(large);
	ok(fuse_inval_answer(&srv, request(0), large), "at the end one waits");
	fuse_inval_done(&srv);
	is_int((long long)answered_n, 1, "and is answered");
	tree_done(&tree);
	engine_close(eng);
	return engine_test_end();
}
