#include "sandbox/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"

static char **env_slot(const struct env *env, const char *key, size_t key_len)
{
	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], key, key_len) == 0 && env->v[i][key_len] == '=')
			return &env->v[i];
	return NULL;
}

/* Takes `pair`, also on failure. */
static int env_put(struct env *env, char *pair, size_t key_len)
{
	char **slot = env_slot(env, pair, key_len);
	char **grown;

	if (slot) {
		free(*slot);
		*slot = pair;
		return 0;
	}
	grown = reallocarray(env->v, env->n + 1, sizeof(*grown));
	if (!grown) {
		free(pair);
		return -ENOMEM;
	}
	env->v = grown;
	env->v[env->n++] = pair;
	return 0;
}

int env_set(struct env *env, const char *key, const char *value)
{
	char *pair;

	if (asprintf(&pair, "%s=%s", key, value) < 0)
		return -ENOMEM;
	return env_put(env, pair, strlen(key));
}

const char *env_get(const struct env *env, const char *key)
{
	size_t key_len = strlen(key);
	char **slot = env_slot(env, key, key_len);

	return slot ? *slot + key_len + 1 : NULL;
}

int env_copy(struct env *to, const struct env *from)
{
	for (size_t i = 0; i < from->n; i++) {
		char *pair = strdup(from->v[i]);
		int r = pair ? env_put(to, pair, strcspn(pair, "=")) : -ENOMEM;

		if (r < 0)
			return r;
	}
	return 0;
}

void env_done(struct env *env)
{
	for (size_t i = 0; i < env->n; i++)
		free(env->v[i]);
	free(env->v);
	*env = (struct env){ 0 };
}
