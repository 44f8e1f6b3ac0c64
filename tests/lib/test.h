/* SPDX-License-Identifier: MIT */
/*
 * TEST(function, "what holds") { ... } is a test of the program that it is linked into. The tests
 * of a file run in its order.
 */
#pragma once

#include <CUnit/Basic.h>
#include <stdio.h>
#include <string.h>

struct test {
	const char *name;
	void (*run)(void);
};

#ifdef __clang__ /* keeps the order of variables as it is */
#define TEST_PLACE __attribute__((used, section("tests")))
#else
#define TEST_PLACE __attribute__((used, section("tests"), no_reorder))
#endif

#define TEST(function, claim)                                                                      \
	static void function(void);                                                                \
	TEST_ROW(function, claim);                                                                 \
	static void function(void)

/* A test whose function a macro has made. */
#define TEST_ROW(function, claim)                                                                  \
	static const struct test row_of_##function TEST_PLACE = {claim, function}
