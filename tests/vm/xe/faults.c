// SPDX-License-Identifier: GPL-2.0-or-later
/* What a test makes fail, in debugfs: /sys/kernel/debug/lab_xe. */
#include <linux/debugfs.h>
#include <linux/module.h>

#include "lab_xe.h"

/* Holds the mutex of all settings until 0 is written, as Linux does for up to 5 s while it clears a
 * VF's memory. Who writes 1 waits as long. */
static int hold(void *data, u64 on)
{
	struct lab_xe *x = data;

	if (!on) {
		complete(&x->faults.released);
		return 0;
	}
	mutex_lock(&x->master);
	x->faults.held = true;
	wait_for_completion(&x->faults.released);
	x->faults.held = false;
	mutex_unlock(&x->master);
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(hold_fops, NULL, hold, "%llu\n");

void lab_faults_init(struct lab_xe *x)
{
	struct lab_faults *f = &x->faults;
	struct {
		const char *name;
		atomic_t *times;
	} counted[] = {{"refused", &f->refused},   {"eio", &f->eio},
		       {"partial", &f->partial},   {"busy", &f->busy},
		       {"clamp_ms", &f->clamp_ms}, {"stores", &f->stores}};
	int i;

	init_completion(&f->released);
	f->dir = debugfs_create_dir("lab_xe", NULL);
	for (i = 0; i < ARRAY_SIZE(counted); i++)
		debugfs_create_atomic_t(counted[i].name, 0600, f->dir, counted[i].times);
	debugfs_create_bool("wedged", 0600, f->dir, &f->wedged);
	debugfs_create_bool("frozen", 0600, f->dir, &f->frozen);
	debugfs_create_bool("held", 0400, f->dir, &f->held);
	debugfs_create_file_unsafe("hold", 0200, f->dir, x, &hold_fops);
}

void lab_faults_exit(struct lab_xe *x)
{
	debugfs_remove_recursive(x->faults.dir);
}
