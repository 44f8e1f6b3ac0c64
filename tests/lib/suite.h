/* SPDX-License-Identifier: MIT */
/* A CUnit program from a table: runs all, or those whose names contain argv[1]. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <CUnit/Basic.h>
#include <stdio.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
};

static int suite_main(const char *name, const struct test *tests, int argc, char **argv)
{
	CU_pSuite suite;
	unsigned failed;
	int i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (CU_initialize_registry() != CUE_SUCCESS)
		return 1;
	suite = CU_add_suite(name, NULL, NULL);
	for (i = 0; tests[i].name; i++)
		if (argc < 2 || strstr(tests[i].name, argv[1]))
			CU_add_test(suite, tests[i].name, tests[i].run);
	CU_basic_set_mode(CU_BRM_VERBOSE);
	if (CU_basic_run_tests() != CUE_SUCCESS)
		return 1;
	failed = CU_get_number_of_failures();
	CU_cleanup_registry();
	return failed > 0;
}

#define SUITE_MAIN(name, tests)                                                                    \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		return suite_main(name, tests, argc, argv);                                        \
	}

#endif
