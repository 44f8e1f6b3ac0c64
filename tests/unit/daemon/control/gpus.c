/* SPDX-License-Identifier: MIT */
/* GPUs that a driver of the host has, or that have policies of their own. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "builtin.h"
#include "fake_nvml.h"
#include "gim_kernel.h"
#include "machine.h"
#include "nvidia_kernel.h"
#include "vms.h"

/* Begins with a GPU that a driver of the host has. */
static void begin_gim(void)
{
	static struct gpu_config gpu = {.name = "gpu0", .device = "gim:" PF, .vfs = GIM_VFS};
	struct engine_config engine_config;
	uint32_t i;

	gpu.ops = vgpu_builtin_policy("fair");
	vgpu_param_defaults(gpu.ops->params, gpu.params);
	for (i = 0; i < GIM_VFS; i++)
		vgpu_param_defaults(gpu.ops->vf_params, gpu.vf_params[i]);
	config_to_engine(&gpu, &engine_config);
	engine_config.driver.layout = NULL;
	engine_config.realtime = false;
	bench_begin_with(&gpu, &engine_config);
}

/* Waits until the first VF's slice is N times that of the last. */
static bool slices_come_to(uint32_t vf, uint32_t n)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	bool is = false;

	while (!is && vgpu_now() < until) {
		turn();
		reactive_lock();
		is = gim_slices[vf] == n * gim_slices[GIM_VFS - 1];
		reactive_unlock();
	}
	return is;
}

static FILE *log_file;
static int kept_stderr;

/* The log goes to a file from here on, until log_comes_to_say(). */
static void keep_log(void)
{
	kept_stderr = dup(STDERR_FILENO);
	log_file = tmpfile();
	CU_ASSERT_FATAL(log_file && kept_stderr >= 0 && dup2(fileno(log_file), STDERR_FILENO) >= 0);
}

/* Waits until the log has WORDS, for a while. Returns whether it has. */
static bool log_comes_to_say(const char *words)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	char text[8192];
	bool is = false;
	ssize_t n;

	while (!is && vgpu_now() < until) {
		turn();
		n = pread(fileno(log_file), text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = '\0';
		is = strstr(text, words) != NULL;
	}
	dup2(kept_stderr, STDERR_FILENO);
	close(kept_stderr);
	fclose(log_file);
	return is;
}

#define DEVICE(managed, function)                                                                  \
	"<hostdev mode='subsystem' type='pci'" managed "><source><address domain='0x0000' "        \
	"bus='0x04' slot='0x10' function='0x" function "'/></source></hostdev>"

/* A start with that XML, and the question what a start would say, have the same WORDS. */
static void says_same(const char *xml, const char *words)
{
	char text[2000];
	struct json_object *o, *vf;

	hook(&one, "prepare", xml);
	CU_ASSERT(refused(&one, "EBUSY", words));
	snprintf(text, sizeof(text), "{\"method\":\"vm.explain\",\"args\":{\"xml\":\"%s\"}}\n",
		 xml);
	say(&one, text);
	o = hear(&one);
	vf = json_object_array_get_idx(get(get(o, "result"), "vfs"), 0);
	CU_ASSERT_STRING_EQUAL(json_object_get_string(get(vf, "state")), "refused");
	CU_ASSERT(strstr(json_object_get_string(get(vf, "text")), words) != NULL);
	json_object_put(o);
}

/* A GPU that a driver of the host has hides its guests and its memory. Its VFs can be claimed all
 * the same, but not one that a process without a lease uses. */
TEST(guests_hidden, "VFs of a GPU of the host can be claimed")
{
	make_gim_machine();
	begin_gim();
	/* What there is to ask has an answer. */
	say(&one, "{\"method\":\"memory.show\"}\n");
	CU_ASSERT(done(&one));
	say(&one, "{\"method\":\"gpu.capacity\"}\n");
	CU_ASSERT(done(&one));
	say(&one, "{\"method\":\"stats\"}\n");
	CU_ASSERT(done(&one));
	say(&one, "{\"method\":\"gpu.show\"}\n");
	CU_ASSERT(says(&one, "governor", "static"));
	say(&one, "{\"method\":\"memory.plan\",\"args\":{\"vf\":0,\"mib\":64}}\n");
	CU_ASSERT(refused(&one, "EOPNOTSUPP", "set the VFs' memory in the"));
	/* A VF that libvirt would take off VFIO, one that no claim takes, and one that shares its
	 * IOMMU group are refused in a sentence, and vm.explain says the same. */
	says_same(CLAIM("<v:vf name='a'/>") "<devices>" DEVICE(" managed='yes'",
							       "2") "</devices></domain>",
		  "its <hostdev> at 0000:04:10.2 has managed='yes'");
	says_same(CLAIM("<v:vf name='a'/>") "<devices>" DEVICE("", "2")
			  DEVICE("", "4") "</devices></domain>",
		  "at 0000:04:10.4, which is VF 2 of gpu0, and none of its claims takes it");
	put_file("0x020000\n", PCI_DEVICES "/%s/class", "0000:09:00.0");
	put_file("", "/sys/kernel/iommu_groups/%s/devices/0000:09:00.0", "51");
	says_same(VM_XML, "shares IOMMU group 51 with 0000:09:00.0");
	take("/sys/kernel/iommu_groups/51/devices/0000:09:00.0");
	CU_ASSERT_EQUAL(n_leases(), 0);
	/* VF 0 is in use by a process that vgpud knows nothing of. */
	put_file("qemu\n", "/proc/%s/comm", "4711");
	put_file("", "/proc/%s/fd/0", "4711");
	point("/dev/vfio/50", "/proc/4711/fd/9");
	hook(&one, "prepare",
	     CLAIM("<v:vf name='a'><v:device gpu='gpu0' vf='0'/></v:vf>") "</domain>");
	CU_ASSERT(refused(&one, "EBUSY", "is used by qemu (pid 4711), which has no lease"));
	CU_ASSERT_EQUAL(n_leases(), 0);
	hook(&one, "prepare", CLAIM(HEAVY) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(n_leases(), 1);
	CU_ASSERT_EQUAL(control.gpus[0].leases[1].state, LEASE_RESERVED);
	CU_ASSERT(slices_come_to(1, 3));
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"equal\"}}\n");
	CU_ASSERT(refused(&one, "EBUSY", "vm1/a: weight 300"));
	hook(&one, "release", CLAIM(HEAVY) "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(n_leases(), 0);
	CU_ASSERT(slices_come_to(1, 1));
	CU_ASSERT(gim_resets[1] == 1 && gim_resets[0] == 0);
	/* A reset that fails is made again, and no VM gets the VF before it has succeeded. */
	reactive_lock();
	gim_reset_error = -ENOTTY;
	reactive_unlock();
	keep_log();
	say(&one, "{\"method\":\"vf.reset\",\"args\":{\"vf\":2}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT(log_comes_to_say("vf reset of VF 2 failed; vgpud will try again, and no VM gets "
				   "the VF until a reset has succeeded"));
	hook(&one, "prepare",
	     CLAIM("<v:vf name='a'><v:device gpu='gpu0' vf='2'/></v:vf>") "</domain>");
	turn();
	CU_ASSERT_EQUAL(n_leases(), 0);
	say(&other, "{\"method\":\"vf.show\",\"args\":{\"vf\":2}}\n");
	CU_ASSERT(says(&other, "state", "scrubbing"));
	reactive_lock();
	gim_reset_error = 0;
	reactive_unlock();
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(gim_resets[2], 1);
	CU_ASSERT_EQUAL(n_leases(), 1);
	bench_end();
	remove_gim_machine();
}

/* The library answers so from now on; whether gpu.show comes to say that what it shows is old, or
 * no more. */
static bool becomes_stale(struct fake_nvml *fake, int result)
{
	vgpu_nsec until = vgpu_now() + PATIENCE;
	struct json_object *o;
	bool is = result == NVML_OK;

	pthread_mutex_lock(&fake->lock);
	fake->running = result;
	pthread_mutex_unlock(&fake->lock);
	while (is == (result == NVML_OK) && vgpu_now() < until) {
		say(&one, "{\"method\":\"gpu.show\"}\n");
		o = hear(&one);
		is = get(get(get(o, "result"), "declared"), "stale") != NULL;
		json_object_put(o);
	}
	return is;
}

/* A VM that vgpud has not admitted begins on VF 3; whether its guest comes to be seen. */
static bool vgpu_begins(struct fake_nvml *fake)
{
	nvidia_vm(4711, 3, VM_UUID);
	pthread_mutex_lock(&fake->lock);
	fake->vm_ids = NVML_VM_IS_UUID;
	fake->vgpus[0].id = 70;
	snprintf(fake->vgpus[0].vm, NVML_ID_SIZE, "%s", VM_UUID);
	fake->n_vgpus = 1;
	pthread_mutex_unlock(&fake->lock);
	return comes_to_say(&one, "{\"method\":\"vf.show\",\"args\":{\"vf\":3}}\n", "state",
			    "active");
}

/* A GPU with policies of its own: what it does is shown, and what it has not is refused. */
TEST(policies_of_its_own, "a GPU with policies of its own")
{
	static struct gpu_config gpu = {.name = "gpu0",
					.device = "nvidia:" PF,
					.vfs = NVIDIA_VFS,
					.vgpu_type = NVIDIA_TYPE};
	struct fake_nvml *fake = dlsym(dlopen("libnvidia-ml.so.1", RTLD_NOW), "fake_nvml");
	struct engine_config engine_config;
	struct json_object *o, *list;

	CU_ASSERT_PTR_NOT_NULL_FATAL(fake);
	strcpy(fake->gpu, PF);
	fake->caps = (struct nvml_caps){.policies = {1, 2, 3},
					.has_arr = 1,
					.min_frequency = 63,
					.max_frequency = 960};
	fake->policy = NVML_BEST_EFFORT;
	fake->arr = NVML_ARR_ON;
	fake->n_log = 1;
	fake->entries[0] = (struct nvml_entry2){5, 700, 700, 3, 2000, 50, 9};
	make_nvidia_machine();
	gpu.ops = vgpu_builtin_policy("equal");
	vgpu_param_defaults(gpu.ops->params, gpu.params);
	config_to_engine(&gpu, &engine_config);
	engine_config.driver.layout = NULL;
	engine_config.realtime = false;
	bench_begin_with(&gpu, &engine_config);
	say(&one, "{\"method\":\"gpu.show\"}\n");
	o = hear(&one);
	CU_ASSERT_STRING_EQUAL(text_at(o, "result", "scheduler"), "driver");
	list = get(get(o, "result"), "declared");
	CU_ASSERT_STRING_EQUAL(json_object_get_string(get(list, "policy")), "equal");
	CU_ASSERT_EQUAL(json_object_get_int64(get(list, "slice_ns")), 2000000);
	CU_ASSERT(!json_object_get_boolean(get(list, "waits")) && !get(list, "trouble"));
	list = json_object_array_get_idx(get(list, "runlists"), 0);
	CU_ASSERT(json_object_get_int(get(list, "id")) == 3 &&
		  json_object_get_int(get(list, "run_ns")) == 700 &&
		  json_object_get_int(get(list, "preempt_ns")) == 50 &&
		  json_object_get_int(get(list, "weight")) == 9);
	json_object_put(o);
	say(&one, "{\"method\":\"timeline\"}\n");
	o = hear(&one);
	CU_ASSERT_STRING_EQUAL(text_at(o, "result", "scheduler"), "driver");
	json_object_put(o);
	/* While the library fails, what was seen last is shown as old. */
	CU_ASSERT(becomes_stale(fake, NVML_UNKNOWN));
	CU_ASSERT_FALSE(becomes_stale(fake, NVML_OK));
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"fair\"}}\n");
	CU_ASSERT(refused(&one, "EOPNOTSUPP", "choose strict (fixed share)"));
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"strict\"}}\n");
	CU_ASSERT(done(&one));
	say(&one, "{\"method\":\"policy.explain\",\"args\":{\"policy\":\"equal\"}}\n");
	o = hear(&one);
	list = json_object_array_get_idx(get(get(o, "result"), "vfs"), 0);
	CU_ASSERT_PTR_NOT_NULL(list);
	CU_ASSERT_PTR_NULL(get(list, "wait_bound_ns"));
	json_object_put(o);
	/* A VM takes a VF, and gives it back: its vGPU type stays. */
	hook(&one, "prepare", CLAIM("<v:vf name='a'/>") "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT_EQUAL(control.gpus[0].leases[0].state, LEASE_RESERVED);
	hook(&one, "release", CLAIM("<v:vf name='a'/>") "</domain>");
	CU_ASSERT(done(&one));
	CU_ASSERT(n_leases() == 0 && nvidia_types[0] == NVIDIA_TYPE);
	/* A policy that a VM claims is not dropped in silence, and comes back. */
	hook(&one, "prepare",
	     CLAIM("<v:vf name='a'><v:sched policy='strict'/></v:vf>") "</domain>");
	CU_ASSERT(done(&one));
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"equal\"}}\n");
	CU_ASSERT(refused(&one, "EBUSY", "vm1/a: policy strict"));
	CU_ASSERT(lacks(""));
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"equal\",\"force\":true}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"gpu.show\"}\n", "policy", "equal"));
	CU_ASSERT(lacks("policy strict"));
	say(&one, "{\"method\":\"policy.set\",\"args\":{\"policy\":\"strict\"}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"gpu.show\"}\n", "policy", "strict"));
	CU_ASSERT(lacks(""));
	hook(&one, "release",
	     CLAIM("<v:vf name='a'><v:sched policy='strict'/></v:vf>") "</domain>");
	CU_ASSERT(done(&one));
	/* Its driver ends vGPUs, not vgpud; no VM gets the VF before that. */
	CU_ASSERT(vgpu_begins(fake));
	keep_log();
	say(&one, "{\"method\":\"vf.reset\",\"args\":{\"vf\":3}}\n");
	CU_ASSERT(done(&one));
	CU_ASSERT(log_comes_to_say("VF 3 was not reset: its vGPU still exists"));
	say(&one, "{\"method\":\"vf.show\",\"args\":{\"vf\":3}}\n");
	CU_ASSERT(says(&one, "state", "scrubbing"));
	pthread_mutex_lock(&fake->lock);
	fake->n_vgpus = 0;
	pthread_mutex_unlock(&fake->lock);
	CU_ASSERT(comes_to_say(&one, "{\"method\":\"vf.show\",\"args\":{\"vf\":3}}\n", "state",
			       "available"));
	bench_end();
	CU_ASSERT(fake->policy == NVML_FIXED_SHARE && fake->inits == fake->shutdowns);
	remove_nvidia_machine();
}
