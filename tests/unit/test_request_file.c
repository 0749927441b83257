/* How bytes become requests: each rule a script of steps, and random splits. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "fs/request_file.h"
#include "sandbox/request.h"
#include "tests/unit/tap.h"

/* What a run did, as text: "J{...};" for a JSON commit, "T..." text, "B..." broken, "R<errno>;" a
 * refusal. Commands are named 1, 2, 3. */
struct world {
	struct buf log;
	int made;
	int check; /* what ops->check refuses with; 0: nothing */
};

static int fake_check(struct request_file *rf, struct err *err)
{
	const struct world *w = rf->arg;

	return w->check ? err_say(err, w->check, "stopped") : 0;
}

static int record(struct request_file *rf, char how, struct buf *name)
{
	struct world *w = rf->arg;

	(void)buf_printf(&w->log, "%c%.*s;", how, (int)rf->pending.len, rf->pending.data);
	return buf_printf(name, "%d", ++w->made);
}

static int fake_json(struct request_file *rf, struct buf *name, struct err *err)
{
	cJSON *doc = json_parse(rf->pending.data, rf->pending.len, REQUEST_MAX, err);

	if (!doc)
		return -err->code;
	cJSON_Delete(doc);
	return record(rf, 'J', name);
}

static int fake_text(struct request_file *rf, struct buf *name, struct err *err)
{
	if (rf->pending.len && strstr(rf->pending.data, "full"))
		return err_say(err, EDQUOT, "too many");
	return record(rf, 'T', name);
}

static int fake_broken(struct request_file *rf, const char *why, struct buf *name, struct err *err)
{
	(void)why;
	(void)err;
	return record(rf, 'B', name);
}

static void fake_refused(struct request_file *rf, const struct err *err)
{
	struct world *w = rf->arg;

	(void)buf_printf(&w->log, "R%s;", strerrorname_np(err->code));
}

static bool fake_dying(pid_t pid)
{
	return pid == 666;
}

static const struct request_file_ops ops = {
	.check = fake_check,
	.commit_json = fake_json,
	.commit_text = fake_text,
	.commit_broken = fake_broken,
	.refused = fake_refused,
	.dying = fake_dying,
	.json_hint = "to run it as a script, begin with a space",
	.busy = "join the pieces",
};

static int blank_only(const struct request_file *rf, const char *bytes, size_t len, struct err *err)
{
	(void)rf;
	for (size_t i = 0; i < len; i++)
		if (!strchr(" \n", bytes[i]))
			return err_say(err, EINVAL, "not blank");
	return 0;
}

/* As for the root's new. */
static const struct request_file_ops spec_ops = {
	.check = fake_check,
	.check_text = blank_only,
	.commit_json = fake_json,
	.commit_text = fake_text,
	.refused = fake_refused,
	.json_hint = "",
	.busy = "no",
	.blank_first = true,
};

/* A step: a letter and its argument.
 *	w W	write, by lock owner 1 or 2: the result, if it is no success, is logged as "e<errno>;"
 *	f F	flush of owner 1 or 2;  k: of owner 1, whose process is dying
 *	r	read up to 64 bytes, logged as "r<bytes>;";  b: one byte
 *	c	the check refuses from here on;  z: release */
struct step {
	char what;
	const char *arg;
};

static void run_step(struct request_file *rf, struct world *w, const struct step *s)
{
	struct request_from from = { .owner = strchr("WF", s->what) ? 2 : 1,
				     .unique = 1,
				     .pid = 1 };
	struct err err = { 0 };
	char bytes[64];
	ssize_t n = 0;

	switch (s->what) {
	case 'w':
	case 'W':
		n = request_file_write(rf, s->arg, strlen(s->arg), &from, &err);
		if (n >= 0 && n != (ssize_t)strlen(s->arg))
			(void)buf_printf(&w->log, "short;");
		break;
	case 'k':
		from.pid = 666;
		n = request_file_flush(rf, &from, &err);
		break;
	case 'f':
	case 'F':
		n = request_file_flush(rf, &from, &err);
		break;
	case 'r':
	case 'b':
		n = request_file_read(rf, bytes, s->what == 'b' ? 1 : sizeof(bytes), &from, NULL);
		if (n >= 0)
			(void)buf_printf(&w->log, "r%.*s;", (int)n, bytes);
		break;
	case 'c':
		w->check = ESRCH;
		break;
	default:
		request_file_release(rf, 1);
	}
	if (n < 0)
		(void)buf_printf(&w->log, "e%s;", strerrorname_np((int)-n));
}

#define MAX_STEPS 12
struct script {
	const char *what;
	bool both, spec;
	struct step step[MAX_STEPS];
	const char *want;
};

static const struct script scripts[] = {
	{ "echo > new: a flush before any data commits nothing",
	  0,
	  0,
	  { { 'f', "" }, { 'w', "id\n" }, { 'f', "" }, { 'z', "" } },
	  "Tid\n;" },
	{ "printf of two lines is one command",
	  0,
	  0,
	  { { 'f', "" }, { 'w', "a\n" }, { 'w', "b\n" }, { 'f', "" } },
	  "Ta\nb\n;" },
	{ "a child's flush does not commit",
	  0,
	  0,
	  { { 'w', "a\n" }, { 'F', "" }, { 'w', "b\n" }, { 'f', "" } },
	  "Ta\nb\n;" },
	{ "the owner of the last write decides",
	  0,
	  0,
	  { { 'w', "a\n" }, { 'W', "b\n" }, { 'f', "" }, { 'W', "c\n" }, { 'F', "" } },
	  "Ta\nb\nc\n;" },
	{ "release commits what is left", 0, 0, { { 'w', "a" }, { 'F', "" }, { 'z', "" } }, "Ta;" },
	{ "nothing written is nothing", 0, 0, { { 'f', "" }, { 'f', "" }, { 'z', "" } }, "" },
	{ "two echoes: the second meets a committed handle",
	  0,
	  0,
	  { { 'w', "a\n" }, { 'f', "" }, { 'W', "b\n" }, { 'F', "" }, { 'z', "" } },
	  "Ta\n;REBUSY;eEBUSY;" },
	{ "white space is accepted after a command",
	  0,
	  0,
	  { { 'w', "a\n" }, { 'f', "" }, { 'w', " \n" }, { 'z', "" } },
	  "Ta\n;" },
	{ "JSON commits in the write that completes it",
	  0,
	  0,
	  { { 'w', "{\"a\":" }, { 'F', "" }, { 'w', "1}\n" }, { 'f', "" } },
	  "J{\"a\":1};" },
	{ "an array too", 0, 0, { { 'w', "[\"ls\"]" }, { 'f', "" } }, "J[\"ls\"];" },
	{ "a bad document fails in its write, and later writes alike, without a second line",
	  0,
	  0,
	  { { 'w', "{x}" }, { 'w', "{x}" }, { 'f', "" }, { 'z', "" } },
	  "REINVAL;eEINVAL;eEINVAL;" },
	{ "brackets that do not match end it",
	  0,
	  0,
	  { { 'w', "{]" }, { 'z', "" } },
	  "REINVAL;eEINVAL;" },
	{ "only white space may follow",
	  0,
	  0,
	  { { 'w', "{} x" }, { 'z', "" } },
	  "REINVAL;eEINVAL;" },
	{ "a second document is EBUSY",
	  0,
	  0,
	  { { 'w', "{}\n" }, { 'w', "{}\n" } },
	  "J{};REBUSY;eEBUSY;" },
	{ "a leading space makes it text", 0, 0, { { 'w', " {x}" }, { 'f', "" } }, "T {x};" },
	{ "JSON that never ended is broken at the flush",
	  0,
	  0,
	  { { 'w', "{\"a\"" }, { 'f', "" }, { 'z', "" } },
	  "B{\"a\";" },
	{ "and at the release", 0, 0, { { 'w', "[" }, { 'z', "" } }, "B[;" },
	{ "a blank text is a text", 0, 0, { { 'w', "\n" }, { 'f', "" } }, "T\n;" },
	{ "a dying writer's text is thrown away",
	  0,
	  0,
	  { { 'w', "rm -rf x" }, { 'k', "" }, { 'z', "" } },
	  "RECANCELED;eECANCELED;" },
	{ "a refusal at the flush is recorded",
	  0,
	  0,
	  { { 'w', "full" }, { 'f', "" }, { 'z', "" } },
	  "REDQUOT;eEDQUOT;" },
	{ "a stopped sandbox refuses the first byte",
	  0,
	  0,
	  { { 'c', "" }, { 'w', "a" }, { 'z', "" } },
	  "RESRCH;eESRCH;" },
	{ "but not the rest of what has begun",
	  0,
	  0,
	  { { 'w', "a" }, { 'c', "" }, { 'w', "b" }, { 'f', "" } },
	  "Tab;" },
	{ "clone: a read commits and gives the name",
	  1,
	  0,
	  { { 'w', "a" }, { 'r', "" }, { 'r', "" } },
	  "Ta;r1\n;r;" },
	{ "after a flush the name waits",
	  1,
	  0,
	  { { 'w', "a\n" }, { 'f', "" }, { 'r', "" } },
	  "Ta\n;r1\n;" },
	{ "a read never crosses a newline; short ones go on",
	  1,
	  0,
	  { { 'w', "a" },
	    { 'f', "" },
	    { 'w', "b" },
	    { 'f', "" },
	    { 'b', "" },
	    { 'r', "" },
	    { 'r', "" },
	    { 'r', "" } },
	  "Ta;Tb;r1;r\n;r2\n;r;" },
	{ "nothing owed", 1, 0, { { 'r', "" } }, "r;" },
	{ "many documents on one handle",
	  1,
	  0,
	  { { 'w', "{}\n" }, { 'w', "[]\n" }, { 'f', "" }, { 'r', "" }, { 'r', "" } },
	  "J{};J[];r1\n;r2\n;" },
	{ "white space behind a document is the document's",
	  1,
	  0,
	  { { 'w', "{}" }, { 'w', "\n" }, { 'f', "" }, { 'r', "" }, { 'r', "" } },
	  "J{};r1\n;r;" },
	{ "but after the flush it is a text",
	  1,
	  0,
	  { { 'w', "{}" }, { 'f', "" }, { 'w', "\n" }, { 'f', "" } },
	  "J{};T\n;" },
	{ "a refused read fails the read, and what is written later",
	  1,
	  0,
	  { { 'w', "full" }, { 'r', "" }, { 'w', "b" }, { 'r', "" } },
	  "REDQUOT;eEDQUOT;eEDQUOT;r;" },
	{ "a read in the middle of a document: its other half is no script",
	  1,
	  0,
	  { { 'w', "{" }, { 'r', "" }, { 'w', "rm x}" }, { 'f', "" }, { 'r', "" }, { 'z', "" } },
	  "REINVAL;eEINVAL;eEINVAL;r;" },
	{ "a flush in the middle of a document: nor is it then",
	  1,
	  0,
	  { { 'w', "{" },
	    { 'f', "" },
	    { 'w', " \n" },
	    { 'w', "rm x}" },
	    { 'w', "rm x}" },
	    { 'r', "" },
	    { 'z', "" } },
	  "B{;REINVAL;eEINVAL;eEINVAL;r1\n;" },
	{ "a refused write sticks",
	  1,
	  0,
	  { { 'w', "{x}" }, { 'f', "" }, { 'w', "a" }, { 'r', "" } },
	  "REINVAL;eEINVAL;eEINVAL;r;" },
	{ "spec: an empty line", 0, 1, { { 'w', "\n" }, { 'f', "" } }, "T\n;" },
	{ "spec: white space, then JSON",
	  1,
	  1,
	  { { 'w', " " }, { 'w', "\n {}\n" }, { 'r', "" } },
	  "J{};r1\n;" },
	{ "spec: words are refused in the write",
	  0,
	  1,
	  { { 'w', "word" }, { 'z', "" } },
	  "REINVAL;eEINVAL;" },
	{ "spec: and its other half too",
	  1,
	  1,
	  { { 'w', "{" }, { 'f', "" }, { 'w', "{}" }, { 'r', "" } },
	  "REINVAL;eEINVAL;REINVAL;eEINVAL;r;" },
	{ "spec: an unfinished one is refused",
	  0,
	  1,
	  { { 'w', "{" }, { 'f', "" }, { 'z', "" } },
	  "REINVAL;eEINVAL;" },
};

static void test_scripts(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		const struct script *s = &scripts[i];
		struct world w = { 0 };
		struct request_file rf;

		request_file_init(&rf, s->spec ? &spec_ops : &ops, &w, s->both);
		for (size_t j = 0; j < MAX_STEPS && s->step[j].what; j++)
			run_step(&rf, &w, &s->step[j]);
		is_str(w.log.data ? w.log.data : "", s->want, "%s", s->what);
		request_file_done(&rf);
		buf_done(&w.log);
	}
}

/* However a request is cut into writes, it is the same request. */
static void test_splits(void)
{
	static const struct {
		const char *bytes, *want;
	} row[] = {
		{ "echo a\n\n{ echo b; }\n", "Techo a\n\n{ echo b; }\n;" },
		{ "{\"cmd\":[\"a\\\"}]\",\"{\"],\"env\":{\"A\":\"\\\\\"}}  \n",
		  "J{\"cmd\":[\"a\\\"}]\",\"{\"],\"env\":{\"A\":\"\\\\\"}};" },
		{ "[\"sh\",\"-c\",\"exit 3\"]\n\n", "J[\"sh\",\"-c\",\"exit 3\"];" },
		{ "{\"cmd\":[\"a\"}", "REINVAL;" },
		{ "{\"cmd\":\"a\"", "B{\"cmd\":\"a\";" },
	};
	int wrong = 0;

	srandom(1);
	for (int i = 0; i < 5000; i++) {
		size_t which = (size_t)i % ARRAY_SIZE(row), len = strlen(row[which].bytes), at = 0;
		const struct request_from from = { .owner = 7 };
		struct world w = { 0 };
		struct request_file rf;

		request_file_init(&rf, &ops, &w, i & 1);
		while (at < len) {
			size_t n = 1 + (size_t)random() % (len - at);

			if (request_file_write(&rf, row[which].bytes + at, n, &from,
					       &(struct err){ 0 }) < 0)
				break;
			at += n;
		}
		(void)request_file_flush(&rf, &from, &(struct err){ 0 });
		wrong += strcmp(w.log.data ? w.log.data : "", row[which].want) != 0;
		request_file_done(&rf);
		buf_done(&w.log);
	}
	is_int(wrong, 0, "requests cut at random are what they were");
}

/* As for cmd: a text may be what is on record, and nothing else. */
static const char on_record[] = "echo one\n: two\n";

static int check_record(const struct request_file *rf, const char *bytes, size_t len,
			struct err *err)
{
	size_t at = rf->pending.len;

	if (at + len > strlen(on_record) || memcmp(on_record + at, bytes, len) != 0)
		return err_say(err, EEXIST, "different");
	return 0;
}

/* The write that holds the first byte which differs is the one that fails. */
static void test_record(void)
{
	struct request_file_ops record_ops = ops;
	size_t len = strlen(on_record);
	int wrong = 0;

	record_ops.check_text = check_record;
	for (int i = 0; i < 5000; i++) {
		const struct request_from from = { .owner = 7 };
		size_t differs = (size_t)random() % (len + 1), at = 0;
		struct request_file rf;
		struct world w = { 0 };
		char text[sizeof(on_record)];

		memcpy(text, on_record, sizeof(text));
		if (differs < len)
			text[differs] ^= 1;
		request_file_init(&rf, &record_ops, &w, false);
		while (at < len) {
			size_t n = 1 + (size_t)random() % (len - at);
			ssize_t r =
				request_file_write(&rf, text + at, n, &from, &(struct err){ 0 });
			bool fits = differs < at || differs >= at + n;

			wrong += r != (fits ? (ssize_t)n : -EEXIST);
			if (r < 0)
				break;
			at += n;
		}
		(void)request_file_flush(&rf, &from, NULL);
		wrong += strcmp(w.log.data ? w.log.data : "",
				differs < len ? "REEXIST;" : "Techo one\n: two\n;") != 0;
		request_file_done(&rf);
		buf_done(&w.log);
	}
	is_int(wrong, 0, "what departs from a record is refused where it does");
}

static void test_limits(void)
{
	const struct request_from from = { .owner = 1 };
	char *big = malloc(REQUEST_MAX + 1);
	struct err err = { 0 };
	struct world w = { 0 };
	struct request_file rf;

	memset(big, 'a', REQUEST_MAX + 1);
	request_file_init(&rf, &ops, &w, false);
	is_int(request_file_write(&rf, big, REQUEST_MAX, &from, &err), REQUEST_MAX,
	       "1 MiB of text");
	is_int(request_file_write(&rf, "a", 1, &from, &err), -E2BIG, "one byte more");
	request_file_release(&rf, 0);
	is_str(w.log.data, "RE2BIG;", "what was refused does not commit at the release");
	request_file_done(&rf);
	buf_done(&w.log);

	request_file_init(&rf, &ops, &w, false);
	is_int(request_file_write(&rf, "a\0b", 3, &from, &err), -EINVAL, "a NUL in a text");
	request_file_done(&rf);

	request_file_init(&rf, &ops, &w, false);
	*big = '{';
	is_int(request_file_write(&rf, big, REQUEST_MAX + 1, &from, &err), -E2BIG, "long JSON");
	request_file_done(&rf);
	buf_done(&w.log);
	free(big);
}

static void test_unread_names(void)
{
	const struct request_from from = { .owner = 1 };
	struct err err = { 0 };
	struct world w = { 0 };
	struct request_file rf;
	int made = 0;

	request_file_init(&rf, &ops, &w, true);
	while (made < 100000 && request_file_write(&rf, "[]", 2, &from, &err) == 2)
		made++;
	is_int(err.code, EDQUOT, "names that nobody reads end in EDQUOT");
	ok(rf.names.len < REQUEST_FILE_NAMES_MAX + 64, "and do not grow for ever");
	request_file_done(&rf);
	buf_done(&w.log);
}

static void test_hint(void)
{
	const struct request_from from = { .owner = 1 };
	struct err err = { 0 };
	struct world w = { 0 };
	struct request_file rf;

	request_file_init(&rf, &ops, &w, false);
	(void)request_file_write(&rf, "{ echo; }", 9, &from, &err);
	ok(strstr(err.msg, "to run it as a script, begin with a space"), "the hint: %s", err.msg);
	request_file_done(&rf);
	buf_done(&w.log);
}

int main(void)
{
	test_scripts();
	test_splits();
	test_record();
	test_limits();
	test_unread_names();
	test_hint();
	return tap_done();
}
