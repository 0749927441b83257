/* clone.c - the one system call that no libc has a wrapper for
 *
 * CLONE_INTO_CGROUP exists in clone3() only, and a child that shares the memory and
 * the stack of its parent comes back from the same call before the parent does: as
 * in vfork(), the way back must not lie on that stack, which C cannot promise.  On
 * a machine that is not listed here the answer is ENOSYS, and hutchd reports it.
 */
#include <errno.h>

#include "agent/agent-internal.h"

#if defined(__x86_64__)

__asm__(".globl clone3_vfork\n"
	".type clone3_vfork, @function\n"
	"clone3_vfork:\n"
	"	pop %rdx\n"
	"	mov $435, %eax\n" /* SYS_clone3 */
	"	syscall\n"
	"	push %rdx\n"
	"	ret\n");

#elif defined(__aarch64__)

__asm__(".globl clone3_vfork\n"
	".type clone3_vfork, %function\n"
	"clone3_vfork:\n"
	"	mov x8, #435\n" /* SYS_clone3 */
	"	svc #0\n"
	"	ret\n");

#else

long clone3_vfork(struct clone_args *args, size_t size)
{
	(void)args;
	(void)size;
	return -ENOSYS;
}

#endif
