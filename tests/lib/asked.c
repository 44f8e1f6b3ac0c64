/* SPDX-License-Identifier: MIT */
#include <poll.h>

#include "asked.h"
#include "builtin.h"
#include "test.h"
#include "vgpu/descriptor.h"

int ask_engine(struct engine *engine, struct engine_request *request)
{
	struct pollfd p = {engine_fd(engine), POLLIN, 0};
	struct engine_request *answered;

	CU_ASSERT_FATAL(engine_send(engine, request));
	for (;;) {
		vgpu_eventfd_drain(p.fd);
		answered = engine_receive(engine);
		if (answered)
			break;
		CU_ASSERT_FATAL(poll(&p, 1, 60000) == 1);
	}
	CU_ASSERT_PTR_EQUAL(answered, request);
	return request->result;
}

const struct engine_snapshot *look_at(struct engine *engine)
{
	static struct engine_snapshot s;
	struct engine_request request = {.ask = ENGINE_SNAPSHOT, .snapshot = &s};

	CU_ASSERT_EQUAL(ask_engine(engine, &request), 0);
	return &s;
}

int ask_policy(struct engine *engine, const struct vgpu_policy_ops *policy)
{
	int64_t params[VGPU_MAX_PARAMS], rows[VGPU_GPU_MAX_VFS * VGPU_MAX_PARAMS];
	struct engine_request request = {
		.ask = ENGINE_EVENT,
		.event = {.type = VGPU_EV_POLICY,
			  .policy = policy,
			  .params = params,
			  .vf_params = rows},
	};
	uint32_t i;

	vgpu_param_defaults(policy->params, params);
	for (i = 0; i < VGPU_GPU_MAX_VFS; i++)
		vgpu_param_defaults(policy->vf_params, rows + i * VGPU_MAX_PARAMS);
	return ask_engine(engine, &request);
}

int begin_engine(struct engine **out, struct vgpu_driver_config driver, const char *policy,
		 const char *param, const char *value, struct vgpu_error *err)
{
	struct engine_config config = {.driver = driver,
				       .begin = {.policy = vgpu_builtin_policy(policy)}};
	uint32_t i;

	vgpu_core_defaults(&config.core, driver.n_vfs);
	vgpu_param_defaults(config.begin.policy->params, config.begin.params);
	if (param)
		CU_ASSERT_EQUAL(vgpu_param_set(config.begin.policy->params, param, value,
					       config.begin.params, err),
				0);
	for (i = 0; i < driver.n_vfs; i++)
		vgpu_param_defaults(config.begin.policy->vf_params, config.begin.vf_params[i]);
	return engine_start(out, &config, err);
}
