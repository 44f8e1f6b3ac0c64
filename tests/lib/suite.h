/* SPDX-License-Identifier: MIT */
/* Makes a CUnit program of its tests (test.h). It runs all, or those whose names contain argv[1].
 */
#pragma once

#include "test.h"

/* The section "tests" of the program; none: it has no TEST. */
extern const struct test __start_tests[] __attribute__((weak, visibility("hidden")));
extern const struct test __stop_tests[] __attribute__((weak, visibility("hidden")));

static void suite_add(CU_pSuite suite, const struct test *t, int argc, char **argv)
{
	if (argc < 2 || strstr(t->name, argv[1]))
		CU_add_test(suite, t->name, t->run);
}

/* TABLES: further tests, of which the program has chosen these; NULL: none. */
static int suite_main(const char *name, const struct test *const *tables, int argc, char **argv)
{
	CU_pSuite suite;
	const struct test *t;
	unsigned failed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (CU_initialize_registry() != CUE_SUCCESS)
		return 1;
	suite = CU_add_suite(name, NULL, NULL);
	for (t = __start_tests; t < __stop_tests; t++)
		suite_add(suite, t, argc, argv);
	for (; tables && *tables; tables++)
		for (t = *tables; t->name; t++)
			suite_add(suite, t, argc, argv);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	if (CU_basic_run_tests() != CUE_SUCCESS)
		return 1;
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed > 0;
}

#define SUITE_MAIN(name)                                                                           \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		return suite_main(name, NULL, argc, argv);                                         \
	}
