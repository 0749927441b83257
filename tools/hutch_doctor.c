/* hutch_doctor.c - hutch doctor: what this machine offers, and what the lack of something costs
 *
 * A check is a row.  It looks, or tries (hutch_doctor_try.c), and changes nothing.
 */
#include "tools/hutch_doctor.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/file.h"
#include "base/json.h"
#include "tools/hutch.h"
#include "tools/table.h"

#define CGROUP_DIR      "/sys/fs/cgroup"
#define KERNEL_MAJOR    5
#define KERNEL_MINOR    15
#define EXIT_INCOMPLETE 1

OPTION_FLAG(take_json, struct doctor_options, json)

static int take_state_dir(void *obj, const char *value, struct err *err)
{
	(void)err;
	((struct doctor_options *)obj)->state_dir = value;
	return 0;
}

static const struct option_def doctor_defs[] = {
	{ "json", 'j', NULL, take_json, "a JSON array of objects" },
	{ "state-dir", 0, "DIR", take_state_dir, "where hutchd is told to keep sandboxes" },
	HUTCH_OPTION_HELP,
};
const struct option_set hutch_doctor_options = { "hutch doctor", doctor_defs,
						 ARRAY_SIZE(doctor_defs), false };

/* ---- helpers ---- */

/* Is there a line in this file whose first word, up to one of `ends`, is `word`? */
static bool has_line(const char *path, const char *word, const char *ends)
{
	auto_buf struct buf text = { .max = 1024 * 1024 };
	size_t len = strlen(word);

	if (file_read(AT_FDCWD, path, &text, NULL) < 0 || text.len == 0)
		return false;
	for (const char *line = text.data; line; line = strchr(line, '\n')) {
		line += strspn(line, " \t\n");
		if (strncmp(line, word, len) == 0 && (!line[len] || strchr(ends, line[len])))
			return true;
	}
	return false;
}

static bool in_path(const char *program)
{
	static const char *const dirs[] = { "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin" };
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dirs[i], program);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

/* ---- the kernel ---- */

static void look_kernel(struct finding *f)
{
	struct utsname name;
	unsigned major = 0, minor = 0;

	(void)uname(&name);
	(void)sscanf(name.release, "%u.%u", &major, &minor);
	if (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR))
		FOUND(f, FINDING_OK, "Linux %s", name.release);
	else
		FOUND(f, FINDING_MISSING, "Linux %s is older than %d.%d, which hutchd needs",
		      name.release, KERNEL_MAJOR, KERNEL_MINOR);
}

static void look_fuse(struct finding *f)
{
	auto_close int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	struct stat st;

	if (fd >= 0)
		FOUND(f, FINDING_OK, "/dev/fuse can be opened");
	else if (errno == ENOENT || (stat("/dev/fuse", &st) == 0 && !S_ISCHR(st.st_mode)))
		FOUND(f, FINDING_MISSING,
		      "there is no device /dev/fuse, so no tree can be mounted: load the module "
		      "('modprobe fuse'), or give the container the device");
	else
		FOUND(f, FINDING_MISSING,
		      "/dev/fuse cannot be opened (%s), so no tree can be mounted; elsewhere every "
		      "user can (chmod 666 /dev/fuse)",
		      strerror(errno));
}

static void look_fuse_timeout(struct finding *f)
{
	static const char *const paths[] = { "/proc/sys/fs/fuse/default_request_timeout",
					     "/proc/sys/fs/fuse/max_request_timeout" };

	FOUND(f, FINDING_OK, "the kernel lets a reader wait as long as it takes");
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		char text[32];

		if (hutch_read_text(AT_FDCWD, paths[i], text, sizeof(text)) == 0 &&
		    strcmp(text, "0") != 0)
			FOUND(f, FINDING_NOTE,
			      "%s is %s: a reader that waits longer ends the whole mount; set it "
			      "to 0",
			      paths[i], text);
	}
}

/* With it a command decides how long the kernel is in the middle of a copy from its memory, and keeps a pipe
 * locked that hutchd needs. */
static void look_userfaults(struct finding *f)
{
	static const char path[] = "/proc/sys/vm/unprivileged_userfaultfd";
	char text[32];

	if (hutch_read_text(AT_FDCWD, path, text, sizeof(text)) == 0 && strcmp(text, "0") != 0)
		FOUND(f, FINDING_NOTE,
		      "%s is %s: any command can make hutchd wait, and with it everybody; set it "
		      "to 0",
		      path, text);
	else
		FOUND(f, FINDING_OK, "no command can make the kernel wait for its memory");
}

/* ---- control groups ---- */

static bool is_cgroup2(const char *path)
{
	struct statfs fs;

	return statfs(path, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* Those of the ones that matter that are not there, as a list. */
static void lacking(const char *list, char *out, size_t size)
{
	static const char *const wanted[] = { "memory", "pids", "cpu" };

	*out = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		char path[64];
		size_t len = strlen(out), n = strlen(wanted[i]);
		const char *at = list ? strstr(list, wanted[i]) : NULL;
		bool found = false;

		for (; at && !found; at = strstr(at + 1, wanted[i]))
			found = (at == list || at[-1] == ' ') && (!at[n] || at[n] == ' ');
		(void)snprintf(path, sizeof(path), CGROUP_DIR "/%s/cgroup.procs", wanted[i]);
		if (list ? !found : access(path, F_OK) < 0)
			(void)snprintf(out + len, size - len, "%s%s", len ? ", " : "", wanted[i]);
	}
}

/* Can this user make groups below the one of v2 that we are in, as hutchd would? */
static bool may_make_groups(const char *mount)
{
	auto_buf struct buf text = { .max = 65536 };
	auto_free char *path = NULL;
	const char *own;

	if (file_read(AT_FDCWD, "/proc/self/cgroup", &text, NULL) < 0 || !text.len)
		return false;
	own = strncmp(text.data, "0::", 3) == 0 ? text.data : strstr(text.data, "\n0::");
	if (!own)
		return false;
	own = strchr(own, '/');
	if (!own || asprintf(&path, "%s%.*s", mount, (int)strcspn(own, "\n"), own) < 0) {
		path = NULL; /* asprintf leaves anything */
		return false;
	}
	return access(path, W_OK) == 0;
}

static void look_cgroups(struct finding *f)
{
	bool v2 = is_cgroup2(CGROUP_DIR), hybrid = !v2 && is_cgroup2(CGROUP_DIR "/unified");
	char list[512] = "", lacks[64];
	const char *kind = v2 ? "v2" : hybrid ? "hybrid (v1, and a bare v2 beside it)" : "v1";

	if (v2)
		(void)hutch_read_text(AT_FDCWD, CGROUP_DIR "/cgroup.controllers", list,
				      sizeof(list));
	lacking(v2 ? list : NULL, lacks, sizeof(lacks));
	if (!v2 && !hybrid && access(CGROUP_DIR "/pids/cgroup.procs", F_OK) < 0)
		FOUND(f, FINDING_NOTE,
		      "no control groups that could be used: killing a command reaches its process "
		      "group only, and there can be no limits");
	else if (geteuid() != 0 && !may_make_groups(v2 ? CGROUP_DIR : CGROUP_DIR "/unified"))
		FOUND(f, FINDING_NOTE,
		      "%s, but none that you may use here: killing a command reaches its process "
		      "group only, and there can be no limits; a hutchd that is started by systemd "
		      "for you has its own (systemd-run --user --scope hutchd)",
		      kind);
	else if (*lacks)
		FOUND(f, FINDING_NOTE, "%s, without %s: limits of these cannot be set", kind,
		      lacks);
	else
		FOUND(f, FINDING_OK, "%s, with memory, pids and cpu", kind);
}

/* ---- the user ---- */

static void look_fusermount(struct finding *f)
{
	bool program = in_path("fusermount3"),
	     others = has_line("/etc/fuse.conf", "user_allow_other", " \t\n");

	if (geteuid() != 0 && program && !getpwuid(geteuid()))
		FOUND(f, FINDING_MISSING,
		      "user %u has no name in passwd, so fusermount3 mounts nothing for it",
		      (unsigned)geteuid());
	else if (program && others)
		FOUND(f, FINDING_OK, "users can mount, and let others in");
	else if (program)
		FOUND(f, FINDING_NOTE,
		      "/etc/fuse.conf has no line user_allow_other: the tree of a user's hutchd is "
		      "for that user only, not for root and containers; root's is not concerned");
	else if (geteuid() == 0)
		FOUND(f, FINDING_NOTE,
		      "no fusermount3: only root can mount a tree (Debian: package fuse3)");
	else
		FOUND(f, FINDING_MISSING,
		      "no fusermount3, which a hutchd that is not root's needs (Debian: package "
		      "fuse3)");
}

static void look_ids(struct finding *f)
{
	if (geteuid() == 0)
		FOUND(f, FINDING_OK, "root's hutchd takes ids that nobody has, 65536 a sandbox");
	else
		FOUND(f, FINDING_NOTE,
		      "the sandboxes of a hutchd of yours have one user, which is you: this "
		      "version "
		      "makes no use of what /etc/subuid and /etc/subgid may give you");
}

static void look_tar(struct finding *f)
{
	if (access("/usr/bin/tar", X_OK) == 0)
		FOUND(f, FINDING_OK, "/usr/bin/tar, which hutch cp runs inside");
	else
		FOUND(f, FINDING_NOTE, "no /usr/bin/tar: hutch cp does not work");
}

/* ---- hutchd ---- */

static void look_hutchd(struct finding *f)
{
	struct hutch_root root;
	char version[64] = "hutchd";
	struct err err = { 0 };
	struct hutch_names names = { 0 };

	if (hutch_root_open(&root, &err) < 0) {
		FOUND(f, FINDING_NOTE, "%s", err.msg);
		return;
	}
	(void)hutch_read_text(root.fd, "version", version, sizeof(version));
	(void)hutch_names_boxes(&root, &names, NULL);
	FOUND(f, FINDING_OK, "%s serves %s, with %zu sandbox%s that you may enter%s", version,
	      root.path, names.n, names.n == 1 ? "" : "es",
	      faccessat(root.fd, "stats.json", R_OK, 0) == 0 ? " (more in stats.json)" : "");
	hutch_names_done(&names);
	hutch_root_done(&root);
}

static const struct doctor_check checks[] = {
	{ "kernel", look_kernel },
	{ "fuse", look_fuse },
	{ "fuse timeout", look_fuse_timeout },
	{ "user faults", look_userfaults },
	{ "user namespaces", doctor_try_userns },
	{ "overlay", doctor_try_overlay },
	{ "idmapped mounts", doctor_try_idmap },
	{ "state directory", doctor_look_state },
	{ "control groups", look_cgroups },
	{ "fusermount3", look_fusermount },
	{ "user ids", look_ids },
	{ "tar", look_tar },
	{ "hutchd", look_hutchd },
};

static const char *const kind_name[] = {
	[FINDING_OK] = "ok",
	[FINDING_NOTE] = "note",
	[FINDING_MISSING] = "missing",
};

static int add_json(cJSON *array, const char *name, const struct finding *f)
{
	cJSON *obj = cJSON_CreateObject();

	if (!cJSON_AddItemToArray(array, obj)) {
		cJSON_Delete(obj);
		return -ENOMEM;
	}
	return cJSON_AddStringToObject(obj, "check", name) &&
			       cJSON_AddStringToObject(obj, "status", kind_name[f->kind]) &&
			       cJSON_AddStringToObject(obj, "text", f->text)
		       ? 0
		       : -ENOMEM;
}

static void print(const char *name, const struct finding *f)
{
	const char *kind = kind_name[f->kind];

	if (isatty(STDOUT_FILENO))
		printf("%s%-7s%s  %-15s  %s\n", colour_begin(kind), kind, colour_end(kind), name,
		       f->text);
	else
		printf("%s\t%s\t%s\n", kind, name, f->text);
}

int hutch_doctor(const struct hutch_command *cmd, int argc, char **argv, struct err *err)
{
	struct doctor_options opt = { 0 };
	AUTO(cJSON_Delete) cJSON *array = NULL;
	bool complete = true;
	int r = hutch_options(cmd, argc, argv, &opt, err);

	if (r <= 0)
		return r;
	if (r < argc)
		return hutch_misused(cmd, err, "it takes no operands");
	array = cJSON_CreateArray();
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct finding f = { .asked = &opt, .kind = FINDING_MISSING };

		checks[i].look(&f);
		complete = complete && f.kind != FINDING_MISSING;
		if (!opt.json)
			print(checks[i].name, &f);
		else if (add_json(array, checks[i].name, &f) < 0)
			return err_set(err, ENOMEM, "print the findings");
	}
	r = opt.json ? print_json_array(array, err) : 0;
	return r < 0 ? r : complete ? 0 : EXIT_INCOMPLETE;
}
