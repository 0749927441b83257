/* list.h - intrusive, circular, doubly linked list
 *
 * A head and a link are the same thing; an unlinked link points to itself, so
 * that list_del() twice is harmless.  A head's comment names the member that
 * links into it.
 */
#pragma once

#include <stdbool.h>

#include "base/auto.h"

struct list {
	struct list *prev, *next;
};

#define LIST_INIT(l)                       \
	{                                  \
		.prev = &(l), .next = &(l) \
	}

static inline void list_init(struct list *l)
{
	l->prev = l->next = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

/* Links `l` in front of `at`: with a head, at the end of the list. */
static inline void list_add_tail(struct list *at, struct list *l)
{
	l->prev = at->prev;
	l->next = at;
	at->prev->next = l;
	at->prev = l;
}

static inline void list_del(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

/* Moves all of `from` to the end of `to`; `from` is empty afterwards. */
static inline void list_splice_tail(struct list *to, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	list_init(from);
}

#define list_entry(l, type, member)    container_of(l, type, member)
#define list_first(head, type, member) list_entry((head)->next, type, member)

#define list_for_each(it, head, member)                                                     \
	for (it = list_entry((head)->next, __typeof__(*it), member); &it->member != (head); \
	     it = list_entry(it->member.next, __typeof__(*it), member))

/* `it` may be unlinked and freed in the body; no other element may. */
#define list_for_each_safe(it, tmp, head, member)                       \
	for (it = list_entry((head)->next, __typeof__(*it), member),    \
	    tmp = list_entry(it->member.next, __typeof__(*it), member); \
	     &it->member != (head);                                     \
	     it = tmp, tmp = list_entry(tmp->member.next, __typeof__(*it), member))
