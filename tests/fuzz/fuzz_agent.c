/* fuzz_agent.c - what comes out of a sandbox: agent_event_check() on arbitrary bytes
 *
 * Any input: no crash, and what is accepted keeps what hutchd relies on. The bytes are also
 * tried with the kinds set right, so that a fuzzer is past the first check at once.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "agent/proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int good)
{
	if (!good)
		abort();
}

static void check(const uint8_t *bytes, size_t len)
{
	struct agent_event ev;

	if (!agent_event_check(bytes, len))
		return;
	require(len == sizeof(ev));
	memcpy(&ev, bytes, sizeof(ev));
	require(ev.kind >= AGENT_READY && ev.kind < AGENT_EVENT_COUNT);
	require((ev.id == 0) == (ev.kind == AGENT_READY || ev.kind == AGENT_SETUP_FAILED));
	require(ev.error >= 0 && ev.error < 4096);
	if (ev.kind == AGENT_STARTED)
		require(ev.value > 0);
	if (ev.kind == AGENT_FAILED)
		require(ev.value > 0 && ev.value < AGENT_STAGE_COUNT && ev.error > 0);
	if (ev.kind == AGENT_EXITED)
		require(WIFEXITED(ev.value) != WIFSIGNALED(ev.value) && !WIFSTOPPED(ev.value));
	else
		require(ev.usage.user_us == 0 && ev.usage.io_write_bytes == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	uint8_t copy[sizeof(struct agent_event)];

	check(bytes, len);
	if (len != sizeof(copy))
		return 0;
	memcpy(copy, bytes, len);
	for (uint32_t kind = 0; kind <= AGENT_EVENT_COUNT; kind++) {
		memcpy(copy, &kind, sizeof(kind));
		check(copy, len);
	}
	return 0;
}
