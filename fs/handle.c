#include "fs/handle.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "fs/tree.h"
#include "sandbox/exec.h"
#include "sandbox/sandbox.h"

#define NO_SLOT     UINT32_MAX
#define SLOTS_FIRST 64

void handles_init(struct handles *hs)
{
	*hs = (struct handles){ .free_head = NO_SLOT };
}

void handles_done(struct handles *hs)
{
	for (uint32_t i = 0; i < hs->n; i++)
		assert(!hs->slot[i]);
	free(hs->slot);
	free(hs->generation);
	free(hs->next_free);
	handles_init(hs);
}

/* Three arrays of the same size. One that has grown alone is merely larger than it needs be. */
static int grow(struct handles *hs)
{
	uint32_t cap = hs->cap ? hs->cap * 2 : SLOTS_FIRST;
	void *p;

	p = reallocarray(hs->slot, cap, sizeof(*hs->slot));
	if (!p)
		return -ENOMEM;
	hs->slot = p;
	p = reallocarray(hs->generation, cap, sizeof(*hs->generation));
	if (!p)
		return -ENOMEM;
	hs->generation = p;
	p = reallocarray(hs->next_free, cap, sizeof(*hs->next_free));
	if (!p)
		return -ENOMEM;
	hs->next_free = p;
	hs->cap = cap;
	return 0;
}

static int take_slot(struct handles *hs, uint32_t *ret)
{
	if (hs->free_head != NO_SLOT) {
		*ret = hs->free_head;
		hs->free_head = hs->next_free[*ret];
		return 0;
	}
	if (hs->n == hs->cap && grow(hs) < 0)
		return -ENOMEM;
	*ret = hs->n++;
	hs->generation[*ret] = 0;
	return 0;
}

uint64_t handle_number(const struct handle *h)
{
	return (uint64_t)h->generation << 32 | (h->slot + UINT64_C(1));
}

struct handle *handle_find(struct tree *tree, uint64_t number)
{
	struct handles *hs = &tree->handles;
	uint32_t slot = (uint32_t)number - 1;
	struct handle *h = slot < hs->n ? hs->slot[slot] : NULL;

	return h && h->generation == number >> 32 ? h : NULL;
}

int handle_new(struct tree *tree, uid_t uid, bool reserve, struct handle **ret, struct err *err)
{
	struct handle *h;
	int r;

	r = users_add_handle(&tree->users, uid, reserve, err);
	if (r < 0)
		return r;
	h = calloc(1, sizeof(*h));
	if (!h || take_slot(&tree->handles, &h->slot) < 0) {
		free(h);
		users_drop_handle(&tree->users, uid);
		return err_set(err, ENOMEM, "open");
	}
	h->tree = tree;
	h->uid = uid;
	h->refs = 1;
	h->generation = ++tree->handles.generation[h->slot];
	tree->handles.slot[h->slot] = h;
	*ret = h;
	return 0;
}

int handle_keeps(struct handle *h, size_t bytes, struct err *err)
{
	int r = users_change_bytes(&h->tree->users, h->uid, h->bytes, bytes, err);

	if (r == 0)
		h->bytes = bytes;
	return r;
}

static int groups(const struct caller *who, gid_t *out, int cap)
{
	const struct handle *h = who->arg;

	for (int i = 0; i < h->groups_n && i < cap; i++)
		out[i] = h->groups[i];
	return h->groups_n;
}

struct caller handle_caller(const struct handle *h)
{
	return (struct caller){ .uid = h->uid, .gid = h->gid, .groups = groups, .arg = h };
}

struct handle *handle_ref(struct handle *h)
{
	h->refs++;
	return h;
}

void handle_unref(struct handle *h)
{
	if (!h || --h->refs)
		return;
	buf_done(&h->text);
	free(h->groups);
	exec_unref(h->ref.exec);
	sandbox_unref(h->ref.sandbox);
	free(h);
}

void handle_close(struct handle *h)
{
	struct handles *hs = &h->tree->handles;

	if (h->def && h->def->ops && h->def->ops->release)
		h->def->ops->release(h);
	hs->slot[h->slot] = NULL;
	hs->next_free[h->slot] = hs->free_head;
	hs->free_head = h->slot;
	(void)handle_keeps(h, 0, NULL);
	users_drop_handle(&h->tree->users, h->uid);
	handle_unref(h);
}
