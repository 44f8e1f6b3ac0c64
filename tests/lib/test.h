/* SPDX-License-Identifier: MIT */
/* One row in a table of tests. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <CUnit/Basic.h>
#include <stdio.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
};

#endif
