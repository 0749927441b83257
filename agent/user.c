/* user.c - who a command runs as, from the sandbox's own /etc/passwd and /etc/group
 *
 * Not getpwnam(): in a static program it loads libraries of the sandbox's into
 * process 1.  The files belong to the sandbox and are hostile: they may be
 * symlinks into /proc, fifos, endless, without newlines.  So: no other file
 * system, regular files only, at most FILE_MAX bytes, and lines that do not fit
 * the buffer are passed over.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/agent-internal.h"
#include "base/auto.h"

#define FILE_MAX   (4 << 20)
#define FIELDS_MAX 7 /* name:x:uid:gid:gecos:home:shell */

struct lines {
	int fd;
	size_t begin, end, total;
	bool eof;
	char buf[4096];
};

static int lines_open(struct lines *l, const char *path)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
		.resolve = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};
	struct stat st;
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));

	l->fd = fd;
	l->begin = l->end = l->total = 0;
	l->eof = false;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		(void)close(fd);
		return -EINVAL;
	}
	return 0;
}

static void lines_fill(struct lines *l)
{
	ssize_t n;

	memmove(l->buf, l->buf + l->begin, l->end - l->begin);
	l->end -= l->begin;
	l->begin = 0;
	n = read(l->fd, l->buf + l->end, sizeof(l->buf) - 1 - l->end);
	if (n <= 0 || l->total > FILE_MAX) {
		l->eof = true;
		return;
	}
	l->end += (size_t)n;
	l->total += (size_t)n;
}

/* The next line without its newline, valid until the next call; NULL at the end. */
static char *lines_next(struct lines *l)
{
	bool skipping = false;

	for (;;) {
		char *line = l->buf + l->begin;
		char *nl = memchr(line, '\n', l->end - l->begin);

		if (nl) {
			*nl = '\0';
			l->begin = (size_t)(nl + 1 - l->buf);
			if (!skipping)
				return line;
			skipping = false;
		} else if (l->eof) {
			l->buf[l->end] = '\0';
			l->begin = l->end;
			return *line && !skipping ? line : NULL;
		} else {
			if (l->begin == 0 && l->end == sizeof(l->buf) - 1) {
				skipping = true;
				l->begin = l->end;
			}
			lines_fill(l);
		}
	}
}

static unsigned split(char *line, char *field[FIELDS_MAX])
{
	unsigned n = 0;

	for (;;) {
		field[n++] = line;
		line = n < FIELDS_MAX ? strchr(line, ':') : NULL;
		if (!line)
			return n;
		*line++ = '\0';
	}
}

/* A number and nothing else up to `end`; (uint32_t)-1 means "leave it" to chown and setresuid. */
static bool parse_id(const char *s, char end, uint32_t *ret)
{
	uint64_t n = 0;

	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++) {
		n = n * 10 + (uint64_t)(*s - '0');
		if (n >= UINT32_MAX)
			return false;
	}
	if (*s != end)
		return false;
	*ret = (uint32_t)n;
	return true;
}

static void set_home(struct user *u, const char *home)
{
	size_t n = strlen(home);

	if (home[0] != '/' || n > USER_HOME_MAX) {
		home = "/";
		n = 1;
	}
	memcpy(u->home_env, "HOME=", 5);
	memcpy(u->home_env + 5, home, n + 1);
}

/* Looks for a name, or with name NULL for u->uid; fills uid, gid and home from the entry. */
static int find_passwd(struct user *u, const char *name)
{
	struct lines l;
	char *line, *f[FIELDS_MAX];
	uint32_t uid, gid;
	int r = lines_open(&l, "/etc/passwd");

	if (r < 0)
		return r;
	r = -ENOENT;
	while (r < 0 && (line = lines_next(&l))) {
		if (split(line, f) < 6 || !parse_id(f[2], '\0', &uid) ||
		    !parse_id(f[3], '\0', &gid))
			continue;
		if (name ? strcmp(f[0], name) != 0 : uid != u->uid)
			continue;
		u->uid = uid;
		u->gid = gid;
		set_home(u, f[5]);
		r = 0;
	}
	(void)close(l.fd);
	return r;
}

static bool in_list(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *s = list; s; s = strchr(s, ',')) {
		s += *s == ',';
		if (strncmp(s, name, n) == 0 && (s[n] == ',' || s[n] == '\0'))
			return true;
	}
	return false;
}

/* A missing or odd group file means no supplementary groups. */
static void find_groups(struct user *u, const char *name)
{
	struct lines l;
	char *line, *f[FIELDS_MAX];
	uint32_t gid;

	if (lines_open(&l, "/etc/group") < 0)
		return;
	while (u->groups_n < USER_GROUPS_MAX && (line = lines_next(&l)))
		if (split(line, f) >= 4 && parse_id(f[2], '\0', &gid) && in_list(f[3], name))
			u->groups[u->groups_n++] = gid;
	(void)close(l.fd);
}

int user_resolve(struct user *u, const char *spec)
{
	const char *colon;
	int r;

	u->uid = u->gid = 0;
	u->groups_n = 0;
	set_home(u, "/root");
	if (!spec || strcmp(spec, "0") == 0 || strcmp(spec, "0:0") == 0)
		return 0; /* the usual case reads no file */
	colon = strchr(spec, ':');
	if (parse_id(spec, colon ? ':' : '\0', &u->uid)) {
		uint32_t gid = 0;

		if (colon && !parse_id(colon + 1, '\0', &gid))
			return -EINVAL;
		/* Numbers need no entry. Without one the group is 0, as in other containers. */
		if (find_passwd(u, NULL) < 0 && u->uid != 0)
			set_home(u, "/");
		if (colon)
			u->gid = gid;
		return 0;
	}
	if (colon || !*spec)
		return -EINVAL;
	r = find_passwd(u, spec);
	if (r < 0)
		return r;
	find_groups(u, spec);
	return 0;
}
