/* SPDX-License-Identifier: MIT */
/*
 * The terminal, for output that is shown repeatedly: a text is drawn in place of the previous one,
 * cut to the terminal's size. If stdout is not a terminal, each text is printed whole. One thread;
 * screen_begin() installs handlers for SIGINT, SIGTERM, SIGWINCH and SIGCONT.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "vgpu/types.h"

/* Whether to print colours: stdout is a terminal and NO_COLOR is not set. */
extern bool view_colour;

#define SCREEN_ANY UINT_MAX

/* Returns the number of columns of the terminal; SCREEN_ANY if stdout is not a terminal. */
unsigned screen_width(void);
/* Returns the number of columns for pictures made of characters, at most 4000; if stdout is not a
 * terminal, from $COLUMNS, or 100. */
unsigned screen_picture_width(void);

enum screen_key { KEY_NONE = 0, KEY_END = -1, KEY_UP = -2, KEY_DOWN = -3, KEY_AGAIN = -4 };

/* Lets ^C end screen_wait() instead of the program; screen_begin() does so, too. */
void screen_catch(void);
/* screen_begin() takes the terminal over, if there is one; screen_end() restores it. */
void screen_begin(void);
void screen_end(void);
/* Returns whether each text is drawn in place of the previous one. */
bool screen_is_drawn(void);

/* screen_draw() draws what was printed to stdout since screen_open(). Its first FIXED lines stay
 * while the keys of screen_wait() scroll the others. */
void screen_open(void);
void screen_draw(unsigned fixed);
/* Waits until UNTIL, CLOCK_MONOTONIC, ns, or for a key. Returns the key's character; KEY_NONE:
 * UNTIL has passed; KEY_AGAIN: draw again, because the terminal's size has changed or the text was
 * scrolled; KEY_END: the user wants to end. */
int screen_wait(vgpu_nsec until);
