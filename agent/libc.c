/* libc.c - the part of libc that the agent uses, for a program linked with -nostdlib
 *
 * The rest of the agent is ordinary C and can be linked with any libc, where this file is left
 * out.  With this one, process 1 of every sandbox is 11 KiB instead of 800, has a few dirty
 * pages, and a sandbox is ready 0.3 ms (one eighth) sooner: a libc sets up what the agent never
 * uses, and asks the processor about itself, in a virtual machine a trip to the hypervisor each
 * time.
 *
 * Contracts are those of the manual pages, as far as the agent needs them.  There are no
 * threads, hence one errno, no thread-local storage, and no stack protector either.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KERNEL_SIGSET_SIZE 8

/* ---- the machine ---- */

/* _start: a stack that is aligned, then main(); vfork: the child returns first, on the same
 * stack, so the way back must not be kept there. raw(): a system call with up to six arguments. */
#if defined(__x86_64__)

__asm__(".globl _start\n"
	"_start:\n"
	"	xor %ebp, %ebp\n"
	"	and $-16, %rsp\n"
	"	call main\n"
	"	mov %eax, %edi\n"
	"	call _exit\n");

__asm__(".globl vfork\n"
	".type vfork, @function\n"
	"vfork:\n"
	"	pop %rdx\n"
	"	mov $58, %eax\n" /* SYS_vfork */
	"	syscall\n"
	"	push %rdx\n"
	"	mov %rax, %rdi\n"
	"	cmp $-4095, %rax\n"
	"	jae vfork_failed\n"
	"	ret\n");

static long raw(long nr, const long a[6])
{
	register long r10 __asm__("r10") = a[3];
	register long r8 __asm__("r8") = a[4];
	register long r9 __asm__("r9") = a[5];
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

#elif defined(__aarch64__)

__asm__(".globl _start\n"
	"_start:\n"
	"	mov x29, #0\n"
	"	bl main\n"
	"	bl _exit\n");

__asm__(".globl vfork\n"
	".type vfork, %function\n"
	"vfork:\n"
	"	mov x0, #0x4111\n" /* CLONE_VM | CLONE_VFORK | SIGCHLD */
	"	mov x1, #0\n"
	"	mov x8, #220\n" /* SYS_clone */
	"	svc #0\n"
	"	cmn x0, #4095\n"
	"	b.hs vfork_failed\n"
	"	ret\n");

static long raw(long nr, const long a[6])
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a[0];
	register long x1 __asm__("x1") = a[1];
	register long x2 __asm__("x2") = a[2];
	register long x3 __asm__("x3") = a[3];
	register long x4 __asm__("x4") = a[4];
	register long x5 __asm__("x5") = a[5];

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}

#else
_Static_assert(0, "leave this file out, and link the agent with a libc");
#endif

int *__errno_location(void)
{
	static int only_one;

	return &only_one;
}

static long result(long r)
{
	if (r < 0 && r >= -4095) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

/* Jumped to from vfork. */
long vfork_failed(long r);
long vfork_failed(long r)
{
	return result(r);
}

#define P(p)          ((long)(uintptr_t)(p))
#define CALL(nr, ...) result(raw(nr, (const long[6]){ __VA_ARGS__ }))

/* ---- memory and strings ---- */

/* Keeps the compiler from making a call to memset() out of memset()'s own loop. */
#define OPAQUE(x) __asm__ volatile("" : "+r"(x))

void *memset(void *to, int c, size_t n)
{
	for (char *p = to; n > 0; n--, p++) {
		OPAQUE(p);
		*p = (char)c;
	}
	return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	char *t = to;

	for (const char *f = from; n > 0; n--) {
		OPAQUE(t);
		*t++ = *f++;
	}
	return to;
}

/* Only ever moves towards the front. */
void *memmove(void *to, const void *from, size_t n)
{
	return memcpy(to, from, n);
}

void *memchr(const void *s, int c, size_t n)
{
	for (const char *p = s; n > 0; n--, p++)
		if (*p == (char)c)
			return (void *)(uintptr_t)p;
	return NULL;
}

size_t strlen(const char *s)
{
	size_t n = 0;

	while (s[n]) {
		n++;
		OPAQUE(n);
	}
	return n;
}

int strncmp(const char *a, const char *b, size_t n)
{
	for (; n > 0; n--, a++, b++)
		if (*a != *b || !*a)
			return (unsigned char)*a - (unsigned char)*b;
	return 0;
}

int strcmp(const char *a, const char *b)
{
	return strncmp(a, b, SIZE_MAX);
}

char *strchrnul(const char *s, int c)
{
	while (*s && *s != (char)c)
		s++;
	return (char *)(uintptr_t)s;
}

char *strchr(const char *s, int c)
{
	char *p = strchrnul(s, c);

	return *p == (char)c ? p : NULL;
}

/* ---- system calls ---- */

long syscall(long nr, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	return result(raw(nr, a));
}

void _exit(int status)
{
	for (;;)
		(void)CALL(SYS_exit_group, status);
}

int prctl(int op, ...)
{
	long arg;
	va_list ap;

	va_start(ap, op);
	arg = va_arg(ap, long);
	va_end(ap);
	return (int)CALL(SYS_prctl, op, arg);
}

int fcntl(int fd, int op, ...)
{
	long arg;
	va_list ap;

	va_start(ap, op);
	arg = va_arg(ap, long);
	va_end(ap);
	return (int)CALL(SYS_fcntl, fd, op, arg);
}

int ioctl(int fd, unsigned long op, ...)
{
	long arg;
	va_list ap;

	va_start(ap, op);
	arg = va_arg(ap, long);
	va_end(ap);
	return (int)CALL(SYS_ioctl, fd, (long)op, arg);
}

int openat(int at, const char *path, int flags, ...)
{
	long mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (flags & O_CREAT)
		mode = va_arg(ap, int);
	va_end(ap);
	return (int)CALL(SYS_openat, at, P(path), flags, mode);
}

/* Never creates: the agent has openat() for that. */
int open(const char *path, int flags, ...)
{
	return (int)CALL(SYS_openat, AT_FDCWD, P(path), flags & ~O_CREAT);
}

int close(int fd)
{
	return (int)CALL(SYS_close, fd);
}

int close_range(unsigned first, unsigned last, int flags)
{
	return (int)CALL(SYS_close_range, first, last, flags);
}

int dup2(int from, int to)
{
	return (int)CALL(SYS_dup3, from, to, 0); /* the two are never the same here */
}

int access(const char *path, int mode)
{
	return (int)CALL(SYS_faccessat, AT_FDCWD, P(path), mode);
}

int unlinkat(int at, const char *path, int flags)
{
	return (int)CALL(SYS_unlinkat, at, P(path), flags);
}

int fstat(int fd, struct stat *st)
{
	return (int)CALL(SYS_fstat, fd, P(st)); /* glibc's structure is the kernel's on both */
}

int fchown(int fd, uid_t uid, gid_t gid)
{
	return (int)CALL(SYS_fchown, fd, uid, gid);
}

ssize_t read(int fd, void *bytes, size_t len)
{
	return CALL(SYS_read, fd, P(bytes), (long)len);
}

ssize_t write(int fd, const void *bytes, size_t len)
{
	return CALL(SYS_write, fd, P(bytes), (long)len);
}

ssize_t sendfile(int out, int in, off_t *off, size_t len)
{
	return CALL(SYS_sendfile, out, in, P(off), (long)len);
}

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	return CALL(SYS_sendto, fd, P(bytes), (long)len, flags);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	return CALL(SYS_recvmsg, fd, P(msg), flags);
}

int poll(struct pollfd *on, nfds_t n, int timeout)
{
	struct timespec t = { timeout / 1000, (long)(timeout % 1000) * 1000000 };

	return (int)CALL(SYS_ppoll, P(on), (long)n, timeout < 0 ? 0 : P(&t), 0, KERNEL_SIGSET_SIZE);
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	return (void *)(uintptr_t)CALL(SYS_mmap, P(at), (long)len, prot, flags, fd, off);
}

int munmap(void *at, size_t len)
{
	return (int)CALL(SYS_munmap, P(at), (long)len);
}

int chdir(const char *path)
{
	return (int)CALL(SYS_chdir, P(path));
}

pid_t setsid(void)
{
	return (pid_t)CALL(SYS_setsid, 0);
}

int execve(const char *path, char *const argv[], char *const envp[])
{
	return (int)CALL(SYS_execve, P(path), P(argv), P(envp));
}

int kill(pid_t pid, int sig)
{
	return (int)CALL(SYS_kill, pid, sig);
}

pid_t wait4(pid_t pid, int *status, int flags, struct rusage *ru)
{
	return (pid_t)CALL(SYS_wait4, pid, P(status), flags, P(ru));
}

pid_t waitpid(pid_t pid, int *status, int flags)
{
	return wait4(pid, status, flags, NULL);
}

/* ---- signals: the kernel's set is the first word of sigset_t ---- */

int sigemptyset(sigset_t *set)
{
	(void)memset(set, 0, sizeof(*set));
	return 0;
}

int sigfillset(sigset_t *set)
{
	(void)memset(set, 0xff, sizeof(*set));
	return 0;
}

int sigaddset(sigset_t *set, int sig)
{
	set->__val[0] |= 1UL << (sig - 1);
	return 0;
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	return (int)CALL(SYS_rt_sigprocmask, how, P(set), P(old), KERNEL_SIGSET_SIZE);
}

/* SIG_DFL and SIG_IGN only: a handler would need a way back. Returns nothing of use. */
sighandler_t signal(int sig, sighandler_t handler)
{
	const long action[4] = { P(handler) }; /* then flags, restorer, mask: none */

	return CALL(SYS_rt_sigaction, sig, P(action), 0, KERNEL_SIGSET_SIZE) < 0 ? SIG_ERR
										 : SIG_DFL;
}

int signalfd(int fd, const sigset_t *set, int flags)
{
	return (int)CALL(SYS_signalfd4, fd, P(set), KERNEL_SIGSET_SIZE, flags);
}
