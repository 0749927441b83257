/* hutchd's configuration: each key's good and bad values, and what the sentence names. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/unit/tap.h"
#include "tools/config.h"

static char path[] = "/tmp/hutch-test-config.XXXXXX";

static int read_text(struct config *c, const char *text, struct err *err)
{
	config_init(c);
	if (file_write(AT_FDCWD, path, 0600, text, strlen(text), err) < 0)
		return -EIO;
	return config_read(c, path, err);
}

static const struct {
	const char *text, *want; /* in the sentence */
} bad[] = {
	{ "", "JSON" },
	{ "{", "is not JSON" },
	{ "[]", "must be a JSON object" },
	{ "{\"x\":1}", "unknown key 'x'; known: root" },
	{ "{\"root\":1}", "config: root: must be an object" },
	{ "{\"root\":{\"x\":1}}", "config: root: unknown key 'x'; known: mode, group" },
	{ "{\"root\":{\"mode\":755}}", "config: root: mode: must be a string" },
	{ "{\"root\":{\"mode\":\"\"}}", "root: mode: must be an octal" },
	{ "{\"root\":{\"mode\":\"-1\"}}", "root: mode: must be an octal" },
	{ "{\"root\":{\"mode\":\" 755\"}}", "root: mode: must be an octal" },
	{ "{\"root\":{\"mode\":\"0855\"}}", "root: mode: must be an octal" },
	{ "{\"root\":{\"mode\":\"2755\"}}", "root: mode: must be an octal" },
	{ "{\"root\":{\"mode\":\"0655\"}}", "root: mode: must be an octal" },
	{ "{\"root\":{\"mode\":\"0777\"}}", "sticky" },
	{ "{\"root\":{\"group\":\"no such\"}}", "there is no group 'no such'" },
	{ "{\"root\":{\"group\":-1}}", "root: group: must be" },
	{ "{\"root\":{\"group\":4294967295}}", "root: group: must be" },
	{ "{\"root\":{\"group\":1.5}}", "root: group: must be" },
	{ "{\"limits\":[]}", "config: limits: must be an object" },
	{ "{\"limits\":{\"x\":1}}", "config: limits: unknown key 'x'; known: sandboxes" },
	{ "{\"limits\":{\"nodes\":0}}", "config: limits: nodes: must be a whole number" },
	{ "{\"limits\":{\"nodes\":1.5}}", "limits: nodes" },
	{ "{\"limits\":{\"nodes\":1e99}}", "limits: nodes" },
	{ "{\"limits\":{\"nodes\":\"5\"}}", "limits: nodes" },
	{ "{\"id_tag\":\"a\"}", "id_tag: must be two" },
	{ "{\"id_tag\":\"aw\"}", "id_tag: must be two" },
	{ "{\"cgroup\":\"v4\"}", "cgroup: must be" },
	{ "{\"cgroup\":2}", "cgroup: must be" },
	{ "{\"mounts\":\"/srv\"}", "mounts: must be" },
	{ "{\"mounts\":[\"srv\"]}", "mounts: must be" },
	{ "{\"mounts\":[\"/srv\",1]}", "mounts: must be" },
};

static void test_bad(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = { 0 };
		struct config c;

		ok(read_text(&c, bad[i].text, &err) < 0 && err.code &&
			   strstr(err.msg, bad[i].want) && strstr(err.msg, path),
		   "refused: %s: %s", bad[i].text, err.msg);
		config_done(&c);
	}
}

static void test_good(void)
{
	struct err err = { 0 };
	struct config c;

	is_int(read_text(&c, "{}", &err), 0, "nothing");
	ok(c.root_mode == 0755 && c.root_gid == (gid_t)-1 && !c.cgroup && !c.mounts && !*c.id_tag,
	   "the defaults");
	config_done(&c);
	is_int(read_text(&c,
			 "{\"root\":{\"mode\":\"1777\",\"group\":\"root\"},\"id_tag\":\"0v\","
			 "\"cgroup\":\"none\",\"mounts\":[\"/srv\",\"/opt\"],"
			 "\"limits\":{\"sandboxes\":7,\"waiting_all\":9}}",
			 &err),
	       0, "everything: %s", err.msg);
	ok(c.root_mode == 01777 && c.root_gid == 0, "root");
	is_str(c.id_tag, "0v", "id_tag");
	is_str(c.cgroup, "none", "cgroup");
	ok(c.mounts && strcmp(c.mounts[1], "/opt") == 0 && !c.mounts[2], "mounts");
	ok(c.limits.user_sandboxes == 7 && c.open.all_parked == 9 && !c.limits.user_nodes,
	   "limits");
	config_done(&c);
	config_done(&c);
	is_int(read_text(&c, "{\"root\":{\"group\":4294967294}}", &err), 0, "a group by number");
	is_int(c.root_gid, 4294967294, "is it");
	config_done(&c);
	for (size_t i = 0; i < config_limit_keys_n; i++) {
		char text[100];

		(void)snprintf(text, sizeof(text), "{\"limits\":{\"%s\":3}}",
			       config_limit_keys[i].name);
		is_int(read_text(&c, text, &err), 0, "%s", config_limit_keys[i].name);
		config_done(&c);
	}
	(void)unlink(path);
	config_init(&c);
	is_int(config_read(&c, path, &err), -ENOENT, "no file: %s", err.msg);
	is_int(config_read(&c, "/", &err), -EISDIR, "a directory: %s", err.msg);
}

int main(void)
{
	int fd = mkstemp(path);

	if (fd < 0)
		return 1;
	(void)close(fd);
	test_bad();
	test_good();
	(void)unlink(path);
	return tap_done();
}
