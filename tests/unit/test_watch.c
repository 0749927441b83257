/* test_watch.c - lists, and watches that cancel, free and re-add while firing */
#include <stdlib.h>

#include "base/watch.h"
#include "tests/unit/tap.h"

struct item {
	int n;
	struct list link;
};

static void test_list(void)
{
	struct list head = LIST_INIT(head), other = LIST_INIT(other);
	struct item items[4], *it, *tmp;
	int sum = 0;

	for (int i = 0; i < 4; i++) {
		items[i].n = i;
		list_init(&items[i].link);
		list_add_tail(i < 2 ? &head : &other, &items[i].link);
	}
	list_splice_tail(&head, &other);
	ok(list_empty(&other), "splicing empties the source");
	list_splice_tail(&head, &other);
	list_for_each (it, &head, link)
		sum = sum * 10 + it->n;
	is_int(sum, 123, "order is kept (0, 1, 2, 3)");
	list_del(&items[1].link);
	list_del(&items[1].link);
	sum = 0;
	list_for_each_safe (it, tmp, &head, link) {
		sum = sum * 10 + it->n;
		list_del(&it->link);
	}
	is_int(sum, 23, "deleting twice is harmless, deleting while walking too");
	ok(list_empty(&head), "nothing is left");
}

struct waiter {
	struct watch watch;
	struct list *head;
	int fired;
	bool again;             /* adds itself again */
	struct waiter *cancels; /* another one */
	bool frees_list;
	bool frees_self;
};

static int total;

static void on_fire(struct watch *w)
{
	struct waiter *me = container_of(w, struct waiter, watch);

	me->fired++;
	total++;
	if (me->again)
		watch_add(me->head, w);
	if (me->cancels)
		watch_cancel(&me->cancels->watch);
	if (me->frees_list)
		free(me->head);
	if (me->frees_self)
		free(me);
}

static void waiter_init(struct waiter *me, struct list *head)
{
	*me = (struct waiter){ .head = head };
	watch_init(&me->watch, on_fire);
	watch_add(head, &me->watch);
}

static void test_fire(void)
{
	struct list head = LIST_INIT(head);
	struct waiter a, b, c;

	waiter_init(&a, &head);
	waiter_init(&b, &head);
	waiter_init(&c, &head);
	a.again = true;
	b.cancels = &c;
	watch_fire_all(&head);
	is_int(a.fired, 1, "one that adds itself again fires once per change");
	is_int(b.fired, 1, "the second fires");
	is_int(c.fired, 0, "one that an earlier one cancelled does not fire");
	watch_fire_all(&head);
	is_int(a.fired, 2, "it waits again");
	is_int(b.fired, 1, "a watch is one-shot");
	a.again = false;
	watch_add(&head, &a.watch);
	watch_add(&head, &a.watch);
	watch_fire_all(&head);
	is_int(a.fired, 3, "adding twice waits once");
	ok(list_empty(&head), "nobody waits any more");
}

static void test_free(void)
{
	struct list *head = malloc(sizeof(*head));
	struct waiter *self = malloc(sizeof(*self)), a, b;

	if (!head || !self)
		exit(1);
	list_init(head);
	waiter_init(&a, head);
	waiter_init(self, head);
	waiter_init(&b, head);
	a.frees_list = true;
	self->frees_self = true;
	total = 0;
	watch_fire_all(head);
	is_int(total, 3, "a watch may free the list's owner and itself");
}

int main(void)
{
	test_list();
	test_fire();
	test_free();
	return tap_done();
}
