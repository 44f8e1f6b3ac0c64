/* SPDX-License-Identifier: MIT */
/*
 * The terminal, for output that is shown again and again: a text is drawn in place of the one
 * before it, cut to the terminal's size. Where stdout is no terminal, each text is printed whole.
 * One thread; screen_begin installs handlers for SIGINT, SIGTERM, SIGWINCH and SIGCONT.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "vgpu/types.h"

/* Whether to print colours: stdout is a terminal and NO_COLOR is not set. */
extern bool view_colour;

#define SCREEN_ANY UINT_MAX

/* Returns the columns of the terminal; SCREEN_ANY if stdout is no terminal. */
unsigned screen_width(void);
/* Returns the columns for pictures made of characters, at most 4000: also where stdout is no
 * terminal, from $COLUMNS or 100. */
unsigned screen_picture_width(void);

enum screen_key { KEY_NONE = 0, KEY_END = -1, KEY_UP = -2, KEY_DOWN = -3, KEY_AGAIN = -4 };

/* Lets ^C end screen_wait instead of the program; screen_begin does so, too. */
void screen_catch(void);
/* Takes the terminal over, if there is one; screen_end gives it back. */
void screen_begin(void);
void screen_end(void);
/* Returns whether texts are drawn in place of each other. */
bool screen_is_drawn(void);

/* screen_draw draws what was printed to stdout since screen_open. Its first FIXED lines stay when
 * the others are scrolled by the keys of screen_wait. */
void screen_open(void);
void screen_draw(unsigned fixed);
/* Waits until UNTIL, CLOCK_MONOTONIC, or for a key. Returns its character; KEY_NONE: the time is
 * over; KEY_AGAIN: draw again, the terminal has another size or was scrolled; KEY_END: the user
 * wants to end. */
int screen_wait(vgpu_nsec until);
