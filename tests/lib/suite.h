/* SPDX-License-Identifier: MIT */
/* Makes a CUnit program from tables of tests. It runs all, or those whose names contain argv[1]. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include "test.h"

static int suite_main(const char *name, const struct test *const *tables, int argc, char **argv)
{
	CU_pSuite suite;
	const struct test *t;
	unsigned failed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (CU_initialize_registry() != CUE_SUCCESS)
		return 1;
	suite = CU_add_suite(name, NULL, NULL);
	for (; *tables; tables++)
		for (t = *tables; t->name; t++)
			if (argc < 2 || strstr(t->name, argv[1]))
				CU_add_test(suite, t->name, t->run);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	if (CU_basic_run_tests() != CUE_SUCCESS)
		return 1;
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed > 0;
}

#define SUITE_MAIN(name, ...)                                                                      \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		const struct test *const tables[] = {__VA_ARGS__, NULL};                           \
                                                                                                   \
		return suite_main(name, tables, argc, argv);                                       \
	}

#endif
