/* test_unpack.c - hostile tar streams: what they make, and that nothing else is touched
 *
 * Each case unpacks into WORK/dst, beside WORK/outside, which must stay as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "tests/unit/archive.h"
#include "tests/unit/tap.h"
#include "tools/unpack.h"

static char work[] = "/tmp/hutch-unpack-XXXXXX";
static int dst = -1;

static void shell(const char *script)
{
	if (system(script) != 0)
		exit(1);
}

/* A new dst, and an outside that is known. */
static void begin(void)
{
	close_auto(&dst);
	shell("chmod -R u+rwx . && rm -rf dst outside && mkdir dst outside && echo safe > "
	      "outside/f");
	dst = open("dst", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dst < 0)
		exit(1);
}

static bool untouched(void)
{
	return system("[ \"$(cat outside/f)\" = safe ] && [ \"$(ls -A outside)\" = f ] && "
		      "[ \"$(ls -A | tr '\\n' ' ')\" = 'dst outside ' ] && "
		      "[ \"$(stat -c %a%h outside/f)\" = 6441 ]") == 0;
}

static void count(void *arg, const struct err *err)
{
	(void)err;
	++*(unsigned *)arg;
}

/* Unpacks "x..." as "y...". */
static int run(struct archive *a, unsigned *complaints, struct err *err)
{
	struct unpack u = {
		.root = dst, .from = "x", .to = "y", .complain = count, .arg = complaints
	};
	struct tar_reader t;
	int r;

	*complaints = 0;
	archive_end(a);
	tar_reader_init(&t, archive_read, a);
	r = unpack_run(&u, &t, err);
	tar_reader_done(&t);
	archive_done(a);
	/* What is in a directory that could not be made is counted, and not complained of. */
	ok(u.failed >= *complaints && (u.failed > 0) == (*complaints > 0), "complaints and count");
	return r;
}

static void test_plain(void)
{
	struct archive a = { 0 };
	unsigned complaints;

	begin();
	archive_dir(&a, "x/", 0555);
	archive_file(&a, "x/f", "one");
	archive_add(&a, &(struct tar_entry){ TAR_FILE, "x/suid", "", 06755, 2, { 981173106, 5 } },
		    "hi");
	archive_link(&a, TAR_SYMLINK, "x/l", "../../outside/f");
	archive_link(&a, TAR_HARDLINK, "x/h", "x/f");
	archive_dir(&a, "./x//d/.", 0700);
	archive_file(&a, "x/d/g", "two");
	archive_file(&a, "x/f", "again");
	is_int(run(&a, &complaints, NULL), 0, "an ordinary stream");
	is_int(complaints, 0, "without complaints");
	ok(system("cd dst/y && [ $(cat f)$(cat h)$(cat d/g)$(readlink l) = "
		  "againonetwo../../outside/f ] && [ $(stat -c %a .)$(stat -c %a suid) = 555755 ]"
		  " && [ $(stat -c %Y suid) = 981173106 ] && [ $(stat -c %Y d) = 0 ]") == 0,
	   "makes what it says, without setuid, with times");
	ok(untouched(), "nothing outside");
}

/* Names that end it at once. */
static void test_names(void)
{
	static const char *const names[] = {
		"/x/f",   "/abs", "../x",      "x/../../outside/f",
		"x/..",   "..",   ".",         "./",
		"y/f",    "xx/f", "x\xff/f",   "",
		"x/d/..", "//x",  "outside/f", "./../f",
		"f/x/..", "X",    " x",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct archive a = { 0 };
		struct err err = { 0 };
		unsigned complaints;

		begin();
		archive_file(&a, names[i], "evil");
		archive_file(&a, "x", "later");
		is_int(run(&a, &complaints, &err), -EPROTO, "name '%s' is refused", names[i]);
		ok(untouched() && faccessat(dst, "y", F_OK, 0) < 0, "and all behind it");
		begin();
		archive_file(&a, "x", "first");
		archive_link(&a, TAR_HARDLINK, "x", names[i]);
		ok(run(&a, &complaints, &err) < 0, "as the target of a hard link too");
		ok(untouched(), "nothing outside");
	}
}

/* Links in the way, made by the stream itself or found. */
static void test_links(void)
{
	static const struct {
		const char *what, *prepare, *link;
		enum tar_type type; /* of the last entry, x/l/f */
	} row[] = {
		{ "a file through a link out", "true", "../../outside", TAR_FILE },
		{ "a directory through it", "true", "../../outside", TAR_DIR },
		{ "a link through it", "true", "../../outside", TAR_SYMLINK },
		{ "a hard link through it", "true", "../../outside", TAR_HARDLINK },
		{ "a file through an absolute link", "true", "/tmp", TAR_FILE },
		{ "a file through a link that stays inside", "mkdir -p dst/y/in", "in", TAR_FILE },
		{ "a link that was there", "mkdir -p dst/y; ln -s ../../outside dst/y/l", NULL,
		  TAR_FILE },
		{ "through /proc", "true", "/proc/self/cwd/outside", TAR_FILE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(row); i++) {
		struct archive a = { 0 };
		unsigned complaints;

		begin();
		shell(row[i].prepare);
		archive_dir(&a, "x", 0755);
		archive_file(&a, "x/own", "mine");
		if (row[i].link)
			archive_link(&a, TAR_SYMLINK, "x/l", row[i].link);
		archive_add(&a,
			    &(struct tar_entry){ .type = row[i].type,
						 .name = "x/l/f",
						 .link = "x/own",
						 .mode = 0777 },
			    NULL);
		archive_file(&a, "x/after", "");
		is_int(run(&a, &complaints, NULL), 0, "%s", row[i].what);
		is_int(complaints, 1, "is complained of");
		ok(untouched() && faccessat(dst, "y/in/f", F_OK, 0) < 0, "is not followed");
		ok(faccessat(dst, "y/after", F_OK, 0) == 0, "the rest comes");
	}
}

/* What is there already, or comes twice. */
static void test_replace(void)
{
	struct archive a = { 0 };
	unsigned complaints;

	begin();
	shell("mkdir -p dst/y/dir && ln -s ../../outside/f dst/y/link && ln outside/f dst/y/hard "
	      "&& "
	      "echo old > dst/y/file && mkfifo dst/y/fifo && chmod 751 dst/y");
	archive_dir(&a, "x", 0700);
	archive_file(&a, "x/link", "new");
	archive_file(&a, "x/hard", "new");
	archive_file(&a, "x/file", "new");
	archive_file(&a, "x/fifo", "new");
	archive_file(&a, "x/dir", "new"); /* complaint */
	archive_dir(&a, "x/file", 0755);  /* complaint */
	archive_file(&a, "x/file/f", "");
	is_int(run(&a, &complaints, NULL), 0, "what is there is replaced");
	ok(system("cd dst/y && [ $(cat link hard file fifo) = newnewnewnew ] && [ ! -L link ] && "
		  "[ -f fifo ] && [ -d dir ] && [ $(stat -c %a .) = 751 ]") == 0,
	   "but directories are not, and keep their modes");
	ok(untouched(), "and never written through");
	is_int(complaints, 2, "complaints");
}

/* A hard link may name what lies in the destination only, and never leads to writing there. */
static void test_hardlinks(void)
{
	struct archive a = { 0 };
	unsigned complaints;

	begin();
	archive_dir(&a, "x", 0755);
	archive_link(&a, TAR_SYMLINK, "x/l", "../../outside/f");
	archive_link(&a, TAR_HARDLINK, "x/h", "x/l");
	archive_file(&a, "x/h", "evil");
	archive_link(&a, TAR_HARDLINK, "x/dir", "x");
	archive_link(&a, TAR_HARDLINK, "x/none", "x/not there");
	archive_link(&a, TAR_HARDLINK, "x/h", "x/h");
	is_int(run(&a, &complaints, NULL), 0, "hard links");
	is_int(complaints, 2, "to a directory and to nothing are complained of");
	ok(system("[ \"$(cat dst/y/h)\" = evil ] && [ \"$(ls -A dst/y | tr '\\n' ' ')\" = 'h l ' "
		  "]") == 0,
	   "what comes later does not go through them");
	ok(untouched(), "nothing outside");
}

static void test_devices(void)
{
	static const char types[] = "346SVMDNZ";
	struct archive a = { 0 };
	unsigned complaints;

	begin();
	for (const char *type = types; *type; type++) {
		archive_raw(&a, *type, "x", "data", 4);
		if (strchr("346", *type)) /* whose size says nothing: the data is a bad header */
			a.bytes.len -= TAR_BLOCK;
	}
	archive_file(&a, "x", "after");
	is_int(run(&a, &complaints, NULL), 0, "devices, fifos and what is not known");
	is_int(complaints, sizeof(types) - 1, "are complained of");
	ok(system("[ \"$(cat dst/y)\" = after ]") == 0, "and skipped");
}

static void test_long(void)
{
	static char deep[2 * 3000 + 2], wide[300];
	struct archive a = { 0 };
	unsigned complaints;

	begin();
	memset(wide, 'w', sizeof(wide) - 1);
	memcpy(wide, "x/", 2);
	for (size_t i = 0; i < sizeof(deep) - 1; i++)
		deep[i] = i % 2 ? '/' : 'x';
	for (size_t i = 1; i < sizeof(deep); i += 2) { /* 3000 directories, one in the other */
		deep[i] = '\0';
		archive_dir(&a, deep, 0755);
		deep[i] = '/';
	}
	archive_file(&a, wide, "");
	is_int(run(&a, &complaints, NULL), 0, "names that the file system does not take");
	ok(complaints > 0 && complaints < 3000, "are complained of");
	ok(untouched(), "nothing outside");
}

static void test_truncated(void)
{
	struct archive a = { 0 };
	struct unpack u = { .root = dst, .from = "x", .to = "y" };
	struct tar_reader t;

	begin();
	u.root = dst;
	archive_file(&a, "x", "some data");
	a.bytes.len -= TAR_BLOCK - 4;
	tar_reader_init(&t, archive_read, &a);
	is_int(unpack_run(&u, &t, NULL), -EPROTO, "a file that ends too early");
	tar_reader_done(&t);
	archive_done(&a);
	ok(system("[ -z \"$(ls -A dst)\" ]") == 0, "leaves nothing, not even its half");
}

/* What is mounted into a sandbox can change under us: a directory that becomes a link and back. */
static void test_race(void)
{
	struct archive a = { 0 };
	unsigned complaints;
	pid_t pid;

	begin();
	shell("mkdir -p dst/y/d && ln -s ../../outside dst/y/l");
	pid = fork();
	if (pid == 0)
		for (;;)
			(void)renameat2(AT_FDCWD, "dst/y/d", AT_FDCWD, "dst/y/l", RENAME_EXCHANGE);
	for (int i = 0; i < 2000; i++) {
		archive_file(&a, "x/d/f", "evil");
		archive_dir(&a, "x/d", 0700);
		archive_dir(&a, "x/d/sub", 0700);
		archive_file(&a, "x", "evil"); /* another parent, so that it is opened anew */
	}
	is_int(run(&a, &complaints, NULL), 0, "a destination that changes meanwhile");
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	ok(complaints > 500, "much fails");
	ok(untouched(), "nothing is written outside");
}

/* A million entries that are made as they are read. */
struct flood {
	struct archive one;
	unsigned n;
	bool dirs;
};

static ssize_t flood_read(void *arg, char *bytes, size_t len, struct err *err)
{
	struct flood *f = arg;
	char name[64];

	if (f->one.at == f->one.bytes.len) {
		archive_done(&f->one);
		(void)snprintf(name, sizeof(name), "x/%u", f->n % 100);
		if (f->n-- == 0)
			archive_end(&f->one);
		else if (f->dirs)
			archive_dir(&f->one, name, 0700);
		else
			archive_link(&f->one, TAR_SYMLINK, name, "to nowhere");
	}
	return archive_read(&f->one, bytes, len, err);
}

static long peak_kib(void)
{
	struct rusage usage;

	(void)getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static void test_flood(bool dirs, unsigned n)
{
	struct flood f = { .n = n, .dirs = dirs };
	struct unpack u = { .from = "x", .to = "y" };
	struct tar_reader t;
	long before;

	begin();
	shell("mkdir dst/y");
	u.root = dst;
	before = peak_kib();
	tar_reader_init(&t, flood_read, &f);
	is_int(unpack_run(&u, &t, NULL), 0, "%u entries", n);
	tar_reader_done(&t);
	archive_done(&f.one);
	/* A sanitizer keeps what was freed. */
#ifdef __SANITIZE_ADDRESS__
	(void)before;
#else
	ok(peak_kib() - before < 2048, "take %ld KiB", peak_kib() - before);
#endif
}

int main(void)
{
	(void)umask(022);
	if (!mkdtemp(work) || chdir(work) < 0)
		return 1;
	test_plain();
	test_names();
	test_links();
	test_replace();
	test_hardlinks();
	test_devices();
	test_long();
	test_truncated();
	test_race();
	test_flood(true, 1000000);
	test_flood(false, 5000);
	close_auto(&dst);
	(void)!system("chmod -R u+rwx . && rm -rf dst outside");
	if (chdir("/") < 0 || rmdir(work) < 0)
		return 1;
	return tap_done();
}
