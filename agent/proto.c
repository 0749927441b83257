/* proto.c - see proto.h
 *
 * What comes out of a sandbox is hostile: an event is taken only if it is one that
 * an honest agent could have sent, field by field.
 */
#include "agent/proto.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "base/auto.h"

#define ERRNO_MAX 4095 /* the kernel's MAX_ERRNO */

static bool errno_check(int32_t e)
{
	return e > 0 && e <= ERRNO_MAX;
}

/* Of a process that is over: exited (status in bits 8-15) or killed (bits 0-6, core in bit 7). */
static bool wait_status_check(int32_t s)
{
	if (s & ~0xffff)
		return false;
	if (WIFEXITED(s))
		return (s & 0xff) == 0;
	return WIFSIGNALED(s) && (s & 0xff00) == 0 && WTERMSIG(s) < NSIG;
}

static bool started_check(const struct agent_event *ev)
{
	return ev->value > 0 && ev->error == 0;
}

static bool ready_check(const struct agent_event *ev)
{
	return ev->value == 0 && ev->error == 0;
}

static bool setup_failed_check(const struct agent_event *ev)
{
	return ev->value >= 0 && ev->value <= AGENT_SETUP_VALUE_MAX && errno_check(ev->error);
}

static bool failed_check(const struct agent_event *ev)
{
	return ev->value > 0 && ev->value < AGENT_STAGE_COUNT && errno_check(ev->error);
}

static bool exited_check(const struct agent_event *ev)
{
	return wait_status_check(ev->value) && ev->error == 0;
}

static const struct event_rule {
	bool (*check)(const struct agent_event *);
	bool of_command; /* has an id */
	bool has_usage;
} event_rules[] = {
	[AGENT_READY] = { ready_check, false, false },
	[AGENT_SETUP_FAILED] = { setup_failed_check, false, false },
	[AGENT_STARTED] = { started_check, true, false },
	[AGENT_FAILED] = { failed_check, true, false },
	[AGENT_EXITED] = { exited_check, true, true },
};
_Static_assert(ARRAY_SIZE(event_rules) == AGENT_EVENT_COUNT, "a rule for every event");

bool agent_event_check(const void *bytes, size_t len)
{
	static const struct agent_usage none;
	const struct event_rule *rule;
	struct agent_event ev;

	if (len != sizeof(ev))
		return false;
	memcpy(&ev, bytes, sizeof(ev)); /* `bytes` need not be aligned */
	if (ev.kind == 0 || ev.kind >= AGENT_EVENT_COUNT)
		return false;
	rule = &event_rules[ev.kind];
	if (rule->of_command != (ev.id != 0) || !rule->check(&ev))
		return false;
	return rule->has_usage || memcmp(&ev.usage, &none, sizeof(none)) == 0;
}
