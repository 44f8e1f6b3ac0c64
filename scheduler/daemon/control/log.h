/* SPDX-License-Identifier: MIT */
/*
 * The log: to the journal if stderr is the journal, else to stderr with the prefixes of
 * sd-daemon(3). The subject of a line becomes fields of the journal (VGPU_GPU, VGPU_VF, VGPU_VM,
 * MESSAGE_ID), and the GPU and the VF also become words at the line's end: gpu=gpu0 vf=3. Keeps
 * errno. It may block: any thread but an engine's.
 */
#pragma once

#include <stdint.h>
#include <syslog.h>

/* Messages that programs look for and that vgpud.catalog explains: each has a MESSAGE_ID. */
enum log_message {
	LOG_PLAIN = 0, /* none of them */
	LOG_READY,
	LOG_GPU_ADOPTED,
	LOG_GPU_LOST,
	LOG_GPU_FOUND,
	LOG_HANG,
	LOG_RESET_FAILED,
	LOG_OUT_OF_SERVICE,
	LOG_EVICTED,
	LOG_VIOLATION,
	LOG_VM_REFUSED,
	LOG_CLAIM_REFUSED,
	LOG_CLAIM_UNREADABLE,
	LOG_CLAIM_NOT_IN_FORCE,
	LOG_CLAIM_IN_FORCE,
	LOG_VM_RESERVED,
	LOG_VM_ADOPTED,
	LOG_VM_UNADMITTED,
	LOG_VM_MAY_LOSE_STATE,
	LOG_VM_RELEASED,
	LOG_VM_NOT_RESUMED,
	LOG_VM_BOOKING_UNKNOWN,
	LOG_MESSAGES
};

/* The subject of a line. The texts must be valid during the call only. */
struct log_about {
	enum log_message message;
	const char *gpu, *vm; /* NULL: none or unknown */
	int vf;		      /* -1: none or unknown */
};

struct log_place {
	const char *file, *line, *function;
};

#define LOG_TEXT(line) LOG_TEXT_OF(line)
#define LOG_TEXT_OF(line) #line
#define LOG_HERE                                                                                   \
	(&(const struct log_place){"CODE_FILE=" __FILE__, "CODE_LINE=" LOG_TEXT(__LINE__),         \
				   __func__})

/* log_line(level, format, ...): logs a line with a level of syslog. */
#define log_line(...) log_about(((struct log_about){.vf = -1}), __VA_ARGS__)
/* log_about(about, level, format, ...): logs a line about a struct log_about. */
#define log_about(about, ...) log_write(LOG_HERE, about, __VA_ARGS__)

/* The functions behind the macros. */
__attribute__((format(printf, 4, 5))) void log_write(const struct log_place *place,
						     struct log_about about, int level,
						     const char *format, ...);
