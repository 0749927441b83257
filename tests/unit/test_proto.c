/* agent_event_check(): what hutchd takes from a sandbox, and what not. */
#include "agent/proto.h"
#include "base/auto.h"
#include "tests/unit/tap.h"

static const struct {
	const char *what;
	struct agent_event ev;
	bool good;
} cases[] = {
	{ "ready", { AGENT_READY, 0, 0, 0, { 0 } }, true },
	{ "ready with an id", { AGENT_READY, 1, 0, 0, { 0 } }, false },
	{ "ready with a value", { AGENT_READY, 0, 1, 0, { 0 } }, false },
	{ "set-up failed", { AGENT_SETUP_FAILED, 0, 5, 1, { 0 } }, true },
	{ "set-up failed in the agent",
	  { AGENT_SETUP_FAILED, 0, AGENT_SETUP_SELF, 1, { 0 } },
	  true },
	{ "set-up failed at a mount",
	  { AGENT_SETUP_FAILED, 0, AGENT_SETUP_VALUE_MAX, 1, { 0 } },
	  true },
	{ "set-up failed nowhere",
	  { AGENT_SETUP_FAILED, 0, AGENT_SETUP_VALUE_MAX + 1, 1, { 0 } },
	  false },
	{ "set-up failed before", { AGENT_SETUP_FAILED, 0, -1, 1, { 0 } }, false },
	{ "set-up failed without errno", { AGENT_SETUP_FAILED, 0, 5, 0, { 0 } }, false },
	{ "started", { AGENT_STARTED, 1, 12, 0, { 0 } }, true },
	{ "started, no id", { AGENT_STARTED, 0, 12, 0, { 0 } }, false },
	{ "started, no pid", { AGENT_STARTED, 1, 0, 0, { 0 } }, false },
	{ "started, pid -1", { AGENT_STARTED, 1, -1, 0, { 0 } }, false },
	{ "started with usage", { AGENT_STARTED, 1, 12, 0, { .majflt = 1 } }, false },
	{ "failed", { AGENT_FAILED, 1, AGENT_STAGE_EXEC, 2, { 0 } }, true },
	{ "failed, no stage", { AGENT_FAILED, 1, 0, 2, { 0 } }, false },
	{ "failed, unknown stage", { AGENT_FAILED, 1, AGENT_STAGE_COUNT, 2, { 0 } }, false },
	{ "failed, no errno", { AGENT_FAILED, 1, AGENT_STAGE_EXEC, 0, { 0 } }, false },
	{ "failed, errno 4096", { AGENT_FAILED, 1, AGENT_STAGE_EXEC, 4096, { 0 } }, false },
	{ "exited 0", { AGENT_EXITED, 1, 0, 0, { 1, 2, 3, 4, 5, 6, 7 } }, true },
	{ "exited 255",
	  { AGENT_EXITED, 1, 255 << 8, 0, { .io_read_bytes = AGENT_UNKNOWN } },
	  true },
	{ "killed", { AGENT_EXITED, 1, 9, 0, { 0 } }, true },
	{ "killed, core dumped", { AGENT_EXITED, 1, 0x80 | 11, 0, { 0 } }, true },
	{ "signal 64", { AGENT_EXITED, 1, 64, 0, { 0 } }, true },
	{ "signal 65", { AGENT_EXITED, 1, 65, 0, { 0 } }, false },
	{ "killed with a status", { AGENT_EXITED, 1, 0x109, 0, { 0 } }, false },
	{ "exited with a core", { AGENT_EXITED, 1, 0x180, 0, { 0 } }, false },
	{ "stopped", { AGENT_EXITED, 1, 0x137f, 0, { 0 } }, false },
	{ "continued", { AGENT_EXITED, 1, 0xffff, 0, { 0 } }, false },
	{ "a status of 17 bits", { AGENT_EXITED, 1, 0x10000, 0, { 0 } }, false },
	{ "exited with an errno", { AGENT_EXITED, 1, 0, 1, { 0 } }, false },
	{ "kind 0", { 0, 0, 0, 0, { 0 } }, false },
	{ "unknown kind", { AGENT_EVENT_COUNT, 1, 0, 0, { 0 } }, false },
	{ "kind -1", { UINT32_MAX, 1, 0, 0, { 0 } }, false },
};

int main(void)
{
	char bytes[2 * sizeof(struct agent_event)] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		ok(agent_event_check(&cases[i].ev, sizeof(cases[i].ev)) == cases[i].good, "%s: %s",
		   cases[i].what, cases[i].good ? "taken" : "refused");
	memcpy(bytes, &cases[0].ev, sizeof(cases[0].ev));
	for (size_t len = 0; len <= sizeof(bytes); len++)
		if (agent_event_check(bytes, len) != (len == sizeof(struct agent_event)))
			ok(false, "%zu bytes", len);
	memcpy(bytes + 1, &cases[0].ev, sizeof(cases[0].ev));
	ok(agent_event_check(bytes + 1, sizeof(struct agent_event)), "bytes that are not aligned");
	return tap_done();
}
