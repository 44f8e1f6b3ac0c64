/* SPDX-License-Identifier: MIT */
#include "reach.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#define MOST_GROUPS 256

struct identity {
	uid_t uid;
	gid_t groups[MOST_GROUPS];
	int n;
};

/* Reads the user from the line user = "NAME" of qemu.conf; NAME becomes "" if LINE has none. */
static void read_line(const char *line, char *name, size_t size)
{
	int at = 0;

	name[0] = '\0';
	if (sscanf(line, " user = %n", &at) == 0 && at > 0 &&
	    (line[at] == '"' || line[at] == '\'')) {
		size_t length = strcspn(line + at + 1, "\"'\n");

		snprintf(name, size, "%.*s", (int)length, line + at + 1);
	}
}

void reach_qemu_user(const char *conf, char *name, size_t size)
{
	static const char *const users[] = {"libvirt-qemu", "qemu", "root"};
	char line[256], found[64];
	FILE *f = fopen(conf, "re");
	size_t i;

	name[0] = '\0';
	while (f && fgets(line, sizeof(line), f)) {
		read_line(line, found, sizeof(found));
		if (found[0])
			snprintf(name, size, "%s", found);
	}
	if (f)
		fclose(f);
	for (i = 0; i < sizeof(users) / sizeof(users[0]) && !name[0]; i++)
		if (getpwnam(users[i]))
			snprintf(name, size, "%s", users[i]);
}

static bool identify(const char *name, struct identity *out)
{
	const struct passwd *user =
		name[0] == '+' ? getpwuid((uid_t)strtoul(name + 1, NULL, 10)) : getpwnam(name);

	if (!user)
		return false;
	out->uid = user->pw_uid;
	out->n = MOST_GROUPS;
	if (getgrouplist(user->pw_name, user->pw_gid, out->groups, &out->n) < 0)
		out->n = MOST_GROUPS;
	return true;
}

/* Returns whether WHO has the permission WANT (1: execute, 2: write) for a file. */
static bool permits(const struct identity *who, const struct stat *st, mode_t want)
{
	int i;

	if (who->uid == 0)
		return true;
	if (who->uid == st->st_uid)
		return st->st_mode & want << 6;
	for (i = 0; i < who->n; i++)
		if (who->groups[i] == st->st_gid)
			return st->st_mode & want << 3;
	return st->st_mode & want;
}

/* Checks the access of WHO to one part of the path, a directory or the socket at its end. */
static int look(const struct identity *who, const char *name, const char *path, mode_t want,
		struct vgpu_error *err)
{
	const struct passwd *user;
	const struct group *group;
	char owner[64], members[64];
	struct stat st;

	if (stat(path, &st) < 0)
		return vgpu_error_set(err, -errno, "%s: %s", path, strerror(errno));
	if (permits(who, &st, want))
		return 0;
	user = getpwuid(st.st_uid);
	snprintf(owner, sizeof(owner), "%s", user ? user->pw_name : "?");
	group = getgrgid(st.st_gid);
	snprintf(members, sizeof(members), "%s", group ? group->gr_name : "?");
	return vgpu_error_set(err, -EACCES,
			      "%s, with which libvirt runs QEMU, may not %s %s (%s:%s, mode %o)",
			      name, want == 2 ? "connect to" : "look into", path, owner, members,
			      (unsigned)(st.st_mode & 07777));
}

int reach_socket(const char *name, const char *path, struct vgpu_error *err)
{
	struct identity who;
	char part[256];
	size_t i;
	int r = 0;

	if (!identify(name, &who))
		return vgpu_error_set(err, -EINVAL,
				      "libvirt is to run QEMU as %s: there is no such user", name);
	for (i = 1; path[i] && i < sizeof(part) && r == 0; i++) {
		if (path[i] != '/')
			continue;
		snprintf(part, sizeof(part), "%.*s", (int)i, path);
		r = look(&who, name, part, 1, err);
	}
	return r < 0 ? r : look(&who, name, path, 2, err);
}
