#include "fs/request_file.h"

#include <errno.h>
#include <string.h>

#include "sandbox/request.h"

void request_file_init(struct request_file *rf, const struct request_file_ops *ops, void *arg,
		       bool both)
{
	*rf = (struct request_file){ .ops = ops, .arg = arg, .both = both };
	buf_init(&rf->pending, REQUEST_MAX);
	buf_init(&rf->names, 0);
}

void request_file_done(struct request_file *rf)
{
	buf_done(&rf->pending);
	buf_done(&rf->names);
}

static size_t count_space(const char *bytes, size_t len)
{
	size_t n = 0;

	while (n < len && bytes[n] && strchr(" \t\r\n\v\f", bytes[n]))
		n++;
	return n;
}

static void forget(struct request_file *rf)
{
	buf_done(&rf->pending);
	if (rf->ops->keeps)
		(void)rf->ops->keeps(rf, 0, NULL);
	rf->form = REQUEST_FORM_NONE;
	rf->scan = (struct json_scan){ 0 };
}

static void tell_refused(struct request_file *rf, const struct err *err)
{
	forget(rf);
	rf->ops->refused(rf, err);
}

/* What was pending has become something with the name in `name`. */
static void committed(struct request_file *rf, const struct buf *name)
{
	rf->after_json = rf->form == REQUEST_FORM_JSON;
	forget(rf);
	if (!rf->both) {
		rf->taken = true;
		return;
	}
	/* Out of memory here loses a name and nothing else: the request has been taken. */
	if (name->len && buf_add(&rf->names, name->data, name->len) == 0)
		(void)buf_add(&rf->names, "\n", 1);
}

/* Names that nobody reads must not grow for ever; checked while it can still be refused. */
static int check_names(const struct request_file *rf, struct err *err)
{
	if (rf->names.len < REQUEST_FILE_NAMES_MAX)
		return 0;
	return err_say(err, EDQUOT, "too many names wait to be read from this handle");
}

static int commit(struct request_file *rf, uint64_t unique, struct err *err)
{
	auto_buf struct buf name = { 0 };
	int r = check_names(rf, err);

	rf->unique = unique;
	if (r == 0 && rf->form == REQUEST_FORM_TEXT)
		r = rf->ops->commit_text(rf, &name, err);
	else if (r == 0)
		r = rf->ops->commit_json(rf, &name, err);
	if (r == 0)
		committed(rf, &name);
	return r;
}

/* What is JSON and was refused all the same was not meant as a script. */
static bool is_json(const struct request_file *rf)
{
	AUTO(cJSON_Delete)
	cJSON *doc = json_parse(rf->pending.data, rf->pending.len, rf->pending.len, NULL);

	return doc;
}

static int refuse_json(struct request_file *rf, int r, struct err *err)
{
	struct err was = *err;

	if (r == -EINVAL && *rf->ops->json_hint)
		return err_say(err, EINVAL, "%s; %s", was.msg, rf->ops->json_hint);
	return r;
}

static int keep(struct request_file *rf, const char *bytes, size_t len, struct err *err)
{
	int r = rf->ops->keeps ? rf->ops->keeps(rf, rf->pending.len + len, err) : 0;

	if (r < 0)
		return r;
	r = buf_add(&rf->pending, bytes, len);
	if (r == -E2BIG)
		return err_say(err, E2BIG, "a request may have %d bytes", REQUEST_MAX);
	return r < 0 ? err_set(err, -r, "keep the request") : 0;
}

static int write_json(struct request_file *rf, const char *bytes, size_t len, uint64_t unique,
		      struct err *err)
{
	size_t used = json_scan_feed(&rf->scan, bytes, len);
	int r;

	if (rf->scan.state == JSON_SCAN_DONE) {
		size_t end = used + count_space(bytes + used, len - used);

		if (end < len)
			return refuse_json(
				rf,
				err_say(err, EINVAL,
					"byte %zu: only white space may follow the document",
					rf->pending.len + end),
				err);
	}
	/* What the scanner finds bad is given to the parser, which can say why. */
	r = keep(rf, bytes, rf->scan.state == JSON_SCAN_DONE ? used : len, err);
	if (r < 0)
		return r;
	if (rf->scan.state == JSON_SCAN_MORE)
		return 0;
	r = commit(rf, unique, err);
	return r < 0 && !is_json(rf) ? refuse_json(rf, r, err) : r;
}

static int write_text(struct request_file *rf, const char *bytes, size_t len, struct err *err)
{
	const char *nul = memchr(bytes, '\0', len);
	int r;

	if (nul)
		return err_say(err, EINVAL, "byte %zu of the text is a NUL",
			       rf->pending.len + (size_t)(nul - bytes));
	r = rf->ops->check_text ? rf->ops->check_text(rf, bytes, len, err) : 0;
	return r < 0 ? r : keep(rf, bytes, len, err);
}

/* The first byte of a request decides what it is. */
static int begin(struct request_file *rf, const char **bytes, size_t *len, struct err *err)
{
	int r;

	if (rf->ops->blank_first) {
		size_t blank = count_space(*bytes, *len);

		if (blank < *len) {
			*bytes += blank;
			*len -= blank;
			forget(rf);
		}
	}
	rf->form = **bytes == '{' || **bytes == '[' ? REQUEST_FORM_JSON : REQUEST_FORM_TEXT;
	r = rf->ops->check(rf, err);
	return r < 0 ? r : check_names(rf, err);
}

static int take(struct request_file *rf, const char *bytes, size_t len,
		const struct request_from *from, struct err *err)
{
	bool blank = count_space(bytes, len) == len;
	int r;

	if (rf->taken)
		return blank ? 0 : err_say(err, EBUSY, "%s", rf->ops->busy);
	if (rf->broken)
		return blank ? 0
			     : err_say(err, EINVAL,
				       "the JSON document before this one never ended; what comes "
				       "behind it is not taken for a request: open the file again");
	if (rf->after_json && blank)
		return 0;
	rf->after_json = false;
	if (rf->form == REQUEST_FORM_NONE ||
	    (rf->form == REQUEST_FORM_TEXT && rf->ops->blank_first)) {
		r = begin(rf, &bytes, &len, err);
		if (r < 0)
			return r;
	}
	rf->owner = from->owner;
	if (rf->form == REQUEST_FORM_JSON)
		return write_json(rf, bytes, len, from->unique, err);
	return write_text(rf, bytes, len, err);
}

ssize_t request_file_write(struct request_file *rf, const char *bytes, size_t len,
			   const struct request_from *from, struct err *err)
{
	struct err mine = { 0 };
	int r;

	err = err ? err : &mine; /* what is refused is recorded with its sentence */
	if (len == 0)
		return 0;
	if (rf->refused)
		return -rf->refused;
	r = take(rf, bytes, len, from, err);
	if (r < 0) {
		rf->refused = -r;
		tell_refused(rf, err);
		return r;
	}
	return (ssize_t)len;
}

/* A document that never ended cannot be refused any more: shells do not look at what close
 * returns.  It becomes something that says what was wrong.  Its other half, if somebody still
 * writes it through this handle, would be a script. */
static int commit_unfinished(struct request_file *rf, uint64_t unique, struct err *err)
{
	static const char why[] = "the JSON document never ended";
	auto_buf struct buf name = { 0 };
	int r;

	rf->unique = unique;
	rf->broken = true;
	if (!rf->ops->commit_broken)
		return err_say(err, EINVAL, "%s", why);
	r = rf->ops->commit_broken(rf, why, &name, err);
	if (r == 0)
		committed(rf, &name);
	return r;
}

static int commit_at_close(struct request_file *rf, uint64_t unique, struct err *err)
{
	int r;

	if (rf->form == REQUEST_FORM_JSON)
		r = commit_unfinished(rf, unique, err);
	else
		r = commit(rf, unique, err);
	if (r < 0)
		tell_refused(rf, err);
	return r;
}

int request_file_flush(struct request_file *rf, const struct request_from *from, struct err *err)
{
	struct err mine = { 0 };

	err = err ? err : &mine;
	if (rf->form == REQUEST_FORM_NONE) {
		rf->after_json = false;
		return 0;
	}
	if (from->owner != rf->owner)
		return 0;
	if (rf->ops->dying && from->pid > 0 && rf->ops->dying(from->pid)) {
		int r = err_say(err, ECANCELED,
				"process %d died of a signal while it wrote; what it wrote was "
				"thrown away",
				(int)from->pid);

		tell_refused(rf, err);
		return r;
	}
	return commit_at_close(rf, from->unique, err);
}

void request_file_release(struct request_file *rf, uint64_t unique)
{
	struct err err = { 0 };

	if (rf->form != REQUEST_FORM_NONE)
		(void)commit_at_close(rf, unique, &err);
}

ssize_t request_file_read(struct request_file *rf, char *bytes, size_t len,
			  const struct request_from *from, struct err *err)
{
	struct err mine = { 0 };
	const char *newline;
	size_t n;
	int r = 0;

	err = err ? err : &mine;
	if (rf->form == REQUEST_FORM_TEXT)
		r = commit(rf, from->unique, err);
	else if (rf->form == REQUEST_FORM_JSON)
		r = refuse_json(rf, err_say(err, EINVAL, "the JSON document has not ended"), err);
	if (r < 0) {
		rf->refused = -r;
		tell_refused(rf, err);
		return r;
	}
	if (rf->names.len == 0)
		return 0;
	newline = memchr(rf->names.data, '\n', rf->names.len);
	n = newline ? (size_t)(newline - rf->names.data) + 1 : rf->names.len;
	n = n < len ? n : len;
	memcpy(bytes, rf->names.data, n);
	buf_consume(&rf->names, n);
	return (ssize_t)n;
}
