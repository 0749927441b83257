/* watch.h - "tell me once when this changes"
 *
 * An object that others wait for owns a `struct list` of watches.  A watch is
 * one-shot: it is taken off the list before it fires, and adds itself again if
 * it still waits.  Firing may remove or free any watch, itself included, and
 * may free the object that owns the list.
 */
#pragma once

#include "base/list.h"

struct watch {
	struct list link;
	void (*fire)(struct watch *);
};

static inline void watch_init(struct watch *w, void (*fire)(struct watch *))
{
	list_init(&w->link);
	w->fire = fire;
}

static inline void watch_add(struct list *head, struct watch *w)
{
	list_del(&w->link);
	list_add_tail(head, &w->link);
}

static inline void watch_cancel(struct watch *w)
{
	list_del(&w->link);
}

/* The list is moved away first: a watch that adds itself again is not fired twice. */
static inline void watch_fire_all(struct list *head)
{
	struct list firing = LIST_INIT(firing);

	list_splice_tail(&firing, head);
	while (!list_empty(&firing)) {
		struct watch *w = list_first(&firing, struct watch, link);

		list_del(&w->link);
		w->fire(w);
	}
}
