#include "fs/users.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/auto.h"

void users_init(struct users *u)
{
	*u = (struct users){ 0 };
	hmap_init(&u->by_uid);
	users_limit(u, &(const struct users_limits){ 0 });
}

void users_limit(struct users *u, const struct users_limits *l)
{
	u->limits.user_handles = l->user_handles ? l->user_handles : 16384;
	u->limits.all_handles = l->all_handles ? l->all_handles : 262144;
	u->limits.user_parked = l->user_parked ? l->user_parked : 16384;
	u->limits.all_parked = l->all_parked ? l->all_parked : 131072;
}

struct user *users_find(const struct users *u, uid_t uid)
{
	uint64_t hash = hmap_hash_u64(uid);
	struct hmap_node *n;

	hmap_for_each_hash (n, &u->by_uid, hash) {
		struct user *user = container_of(n, struct user, by_uid);

		if (user->uid == uid)
			return user;
	}
	return NULL;
}

static struct user *get(struct users *u, uid_t uid, struct err *err)
{
	struct user *user = users_find(u, uid);

	if (user)
		return user;
	user = calloc(1, sizeof(*user));
	if (!user) {
		(void)err_set(err, ENOMEM, "user %u", (unsigned)uid);
		return NULL;
	}
	user->uid = uid;
	hmap_add(&u->by_uid, &user->by_uid, hmap_hash_u64(uid));
	return user;
}

static void put(struct users *u, struct user *user)
{
	if (user->handles || user->parked)
		return;
	hmap_del(&u->by_uid, &user->by_uid);
	free(user);
}

void users_done(struct users *u)
{
	/* Every handle and every parked request is gone by now, and took its count along. */
	assert(u->by_uid.count == 0);
	hmap_done(&u->by_uid);
}

int users_add_handle(struct users *u, uid_t uid, bool reserve, struct err *err)
{
	size_t more = reserve ? HANDLES_RESERVE : 0;
	struct user *user = get(u, uid, err);
	int r = 0;

	if (!user)
		return -ENOMEM;
	if (user->handles >= u->limits.user_handles + more)
		r = err_say(err, EMFILE, "user %u has %zu files of the tree open, the most allowed",
			    (unsigned)uid, user->handles);
	else if (u->handles >= u->limits.all_handles + more)
		r = err_say(err, ENFILE, "%zu files of the tree are open, the most allowed",
			    u->handles);
	if (r < 0) {
		put(u, user);
		return r;
	}
	user->handles++;
	u->handles++;
	return 0;
}

void users_drop_handle(struct users *u, uid_t uid)
{
	struct user *user = users_find(u, uid);

	assert(user && user->handles);
	user->handles--;
	u->handles--;
	put(u, user);
}

static int check_bytes(const struct users *u, const struct user *user, size_t more, struct err *err)
{
	if (user->bytes + more <= USER_BYTES_MAX && u->bytes + more <= ALL_BYTES_MAX)
		return 0;
	return err_say(err, EDQUOT,
		       "open files and waiting writes hold %zu bytes of user %u, %zu in all",
		       user->bytes, (unsigned)user->uid, u->bytes);
}

int users_change_bytes(struct users *u, uid_t uid, size_t from, size_t to, struct err *err)
{
	struct user *user = users_find(u, uid);
	int r;

	assert(user && user->handles && user->bytes >= from);
	r = to > from ? check_bytes(u, user, to - from, err) : 0;
	if (r < 0)
		return r;
	user->bytes += to - from;
	u->bytes += to - from;
	return 0;
}

int users_add_parked(struct users *u, uid_t uid, size_t bytes, struct err *err)
{
	struct user *user = get(u, uid, err);
	int r = 0;

	if (!user)
		return -ENOMEM;
	if (user->parked >= u->limits.user_parked || u->parked >= u->limits.all_parked)
		r = err_say(err, EAGAIN, "too many requests wait: %zu of user %u, %zu in all",
			    user->parked, (unsigned)uid, u->parked);
	else
		r = check_bytes(u, user, bytes, err);
	if (r < 0) {
		put(u, user);
		return r;
	}
	user->parked++;
	user->bytes += bytes;
	u->parked++;
	u->bytes += bytes;
	return 0;
}

void users_drop_parked(struct users *u, uid_t uid, size_t bytes)
{
	struct user *user = users_find(u, uid);

	assert(user && user->parked && user->bytes >= bytes);
	user->parked--;
	user->bytes -= bytes;
	u->parked--;
	u->bytes -= bytes;
	put(u, user);
}
