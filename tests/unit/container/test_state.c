/* SPDX-License-Identifier: MIT */
/* What the hook takes of an OCI runtime's state. */
#include <errno.h>

#include "state.h"
#include "suite.h"

static struct state s;
static struct vgpu_error err;

static int reads(const char *text)
{
	return state_read(&s, text, strlen(text), &err);
}

TEST(takes_what_it_needs, "it takes what it needs")
{
	CU_ASSERT_EQUAL_FATAL(
		reads("{\"ociVersion\":\"1.0\",\"id\":\"ab12\",\"pid\":4242,\"root\":\"/x/merged\","
		      "\"bundle\":\"/x\",\"status\":\"created\",\"annotations\":{\"vgpud.dev/"
		      "share\":\"30%\",\"vgpud.dev/gpu\":\"gpu0\",\"others\":7}}"),
		0);
	CU_ASSERT_STRING_EQUAL(s.id, "ab12");
	CU_ASSERT_EQUAL(s.pid, 4242);
	CU_ASSERT_STRING_EQUAL(s.root, "/x/merged");
	CU_ASSERT_STRING_EQUAL(s.bundle, "/x");
	CU_ASSERT_EQUAL(json_object_object_length(s.annotations), 2);
	state_drop(&s);
}

/* Engines write names in annotations of their own, or not at all; a wrong one is no name. */
TEST(takes_engines_names, "it takes engines' names")
{
	static const struct {
		const char *annotations, *names;
	} cases[] = {
		{"\"io.kubernetes.container.name\":\"main\",\"io.kubernetes.pod.name\":\"p0\","
		 "\"io.kubernetes.pod.namespace\":\"ml\",\"io.kubernetes.cri-o.ImageName\":\"q/"
		 "x:1\"",
		 "{ \"name\": \"main\", \"pod\": \"p0\", \"namespace\": \"ml\", \"image\": "
		 "\"q\\/x:1\" }"},
		{"\"io.kubernetes.cri.container-name\":\"c\",\"io.kubernetes.cri.sandbox-name\":"
		 "\"p\",\"io.kubernetes.cri.image-name\":\"i\"",
		 "{ \"name\": \"c\", \"pod\": \"p\", \"image\": \"i\" }"},
		{"\"nerdctl\\/name\":\"web\"", "{ \"name\": \"web\" }"},
		{"\"nerdctl\\/name\":7,\"io.kubernetes.pod.name\":\"a\\nb\"", "{ }"},
	};
	char text[600];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "{\"id\":\"a\",\"annotations\":{%s}}",
			 cases[i].annotations);
		CU_ASSERT_EQUAL_FATAL(reads(text), 0);
		CU_ASSERT_STRING_EQUAL(json_object_to_json_string(s.names), cases[i].names);
		state_drop(&s);
	}
}

/* runc's state has no root. */
TEST(finds_the_root, "it finds the root")
{
	static const struct {
		const char *config, *root;
	} cases[] = {
		{"{\"root\":{\"path\":\"rootfs\"}}", "/x/rootfs"},
		{"{\"root\":{\"path\":\"/y/merged\",\"readonly\":true}}", "/y/merged"},
		{"{\"root\":{\"path\":\"\"}}", NULL},
		{"{\"root\":\"/y\"}", NULL},
		{"{\"root\":{\"path\":7}}", NULL},
		{"{}", NULL},
		{"[]", NULL},
		{"", NULL},
	};
	size_t i;
	int r;

	CU_ASSERT_EQUAL_FATAL(reads("{\"id\":\"a\",\"pid\":1,\"bundle\":\"/x\"}"), 0);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		r = state_read_config(&s, cases[i].config, strlen(cases[i].config), &err);
		CU_ASSERT_EQUAL(r, cases[i].root ? 0 : -EINVAL);
		if (cases[i].root)
			CU_ASSERT_STRING_EQUAL(s.root, cases[i].root);
	}
	state_drop(&s);
}

TEST(refuses_the_rest, "it refuses the rest")
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"", "no JSON object"},
		{"7", "no JSON object"},
		{"{\"id\":\"a\"", "no JSON object"},
		{"{}", "\"id\""},
		{"{\"id\":\"\"}", "\"id\""},
		{"{\"id\":7}", "\"id\""},
		{"{\"id\":\"a\\nb\"}", "\"id\""},
		{"{\"id\":\"a\",\"pid\":-1}", "\"pid\""},
		{"{\"id\":\"a\",\"pid\":\"1\"}", "\"pid\""},
		{"{\"id\":\"a\",\"pid\":4294967297}", "\"pid\""},
		{"{\"id\":\"a\",\"root\":{}}", "\"root\""},
		{"{\"id\":\"a\",\"annotations\":[]}", "\"annotations\""},
		{"{\"id\":\"a\",\"annotations\":{\"vgpud.dev/gpu\":7}}", "\"annotations\""},
	};
	char long_id[400];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CU_ASSERT_EQUAL(reads(cases[i].text), -EINVAL);
		CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].says));
	}
	snprintf(long_id, sizeof(long_id), "{\"id\":\"%0300d\"}", 7);
	CU_ASSERT_EQUAL(reads(long_id), -EINVAL);
	/* as deep as nobody needs it */
	memset(long_id, '[', sizeof(long_id) - 1);
	CU_ASSERT_EQUAL(reads(long_id), -EINVAL);
}

SUITE_MAIN("state")
