/* SPDX-License-Identifier: MIT */
/* Removes control characters from output: names come from the users who define VMs, and another
 * host may answer anything. */
#pragma once

#include <json-c/json.h>

/* Replaces the control characters of a text, also those of UTF-8, except line ends and tabs, by
 * '?'. */
void clean_text(char *text);
/* As clean_text(), for all texts of an answer; removes members whose names have such characters. */
void clean_answer(struct json_object *answer);
