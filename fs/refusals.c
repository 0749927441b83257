#include "fs/refusals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void refusals_init(struct refusals *r)
{
	list_init(&r->users);
	r->count = 0;
}

static void of_free(struct refusals_of *of)
{
	for (size_t i = 0; i < REFUSALS_KEPT; i++)
		free(of->ring[i].path);
	list_del(&of->link);
	free(of);
}

void refusals_done(struct refusals *r)
{
	while (!list_empty(&r->users))
		of_free(list_first(&r->users, struct refusals_of, link));
	r->count = 0;
}

static struct refusals_of *find(const struct refusals *r, uid_t uid)
{
	struct refusals_of *of;

	list_for_each (of, &r->users, link)
		if (of->uid == uid)
			return of;
	return NULL;
}

static struct refusals_of *get(struct refusals *r, uid_t uid)
{
	struct refusals_of *of = find(r, uid);

	if (of)
		return of;
	of = calloc(1, sizeof(*of));
	if (!of)
		return NULL;
	of->uid = uid;
	list_init(&of->link);
	if (r->count == REFUSALS_USERS_MAX)
		of_free(list_entry(r->users.prev, struct refusals_of, link));
	else
		r->count++;
	return of;
}

void refusals_add(struct refusals *r, uid_t uid, const char *path, const struct err *err)
{
	struct refusals_of *of = get(r, uid);
	struct refusal *slot;

	if (!of)
		return;
	slot = &of->ring[of->count++ % REFUSALS_KEPT];
	free(slot->path);
	slot->path = strdup(path);
	slot->err = *err;
	(void)clock_gettime(CLOCK_REALTIME, &slot->at);
	list_del(&of->link);
	list_add_tail(r->users.next, &of->link); /* in front of the first */
}

/* A space ends the path. */
static int print_path(const char *path, struct buf *out)
{
	int r = 0;

	while (r == 0 && *path) {
		size_t len = strcspn(path, " ");

		r = text_escape(out, path, len);
		path += len;
		if (r == 0 && *path) {
			r = buf_printf(out, "\\x20");
			path++;
		}
	}
	return r;
}

static int print_one(const struct refusal *one, struct buf *out)
{
	const char *path = one->path ? one->path : "?", *name = strerrorname_np(one->err.code);
	char when[RFC3339_LEN + 1];

	rfc3339(when, &one->at);
	if (buf_printf(out, "%s ", when) < 0 || print_path(path, out) < 0 ||
	    buf_printf(out, " %s ", name ? name : "?") < 0 ||
	    text_escape(out, one->err.msg, strlen(one->err.msg)) < 0)
		return -ENOMEM;
	return buf_add(out, "\n", 1);
}

int refusals_print(const struct refusals *r, uid_t uid, struct buf *out)
{
	const struct refusals_of *of = find(r, uid);
	unsigned kept = of && of->count < REFUSALS_KEPT ? of->count : REFUSALS_KEPT;

	for (unsigned i = 1; of && i <= kept; i++) {
		int e = print_one(&of->ring[(of->count - i) % REFUSALS_KEPT], out);

		if (e < 0)
			return e;
	}
	return 0;
}
