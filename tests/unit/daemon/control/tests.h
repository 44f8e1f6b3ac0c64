/* SPDX-License-Identifier: MIT */
/* The tables of tests, one of each file. */
#ifndef TESTS_CONTROL_TESTS_H
#define TESTS_CONTROL_TESTS_H

#include "test.h"

extern const struct test requests_tests[], changes_tests[], leases_tests[], libvirts_tests[],
	incoming_tests[], gpus_tests[], claims_tests[], booking_tests[], tenants_tests[];

#endif
