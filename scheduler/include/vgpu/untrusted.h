/* SPDX-License-Identifier: MIT */
/*
 * A unix stream socket whose peer is less trusted than this process.
 *
 * The peer can send descriptors along with bytes (SCM_RIGHTS). Closing a descriptor is the danger,
 * and the kernel also closes those that the receiver does not take. The last close of a file can
 * block: that of a TCP socket with SO_LINGER for hours, that of a FUSE file for ever. A thread
 * blocks in this way if it reads such a message without taking the descriptors, or closes a socket
 * that holds unread ones. This module avoids both:
 * - Linux 6.16 and newer refuse descriptors for the socket (SO_PASSRIGHTS): the peer's sendmsg()
 *   fails with EPERM.
 * - The module peeks (MSG_PEEK) before each read, and reads only bytes without a descriptor. This
 *   works on every kernel, and for data sent before descriptors were refused.
 * - A separate process closes a socket that holds an unread descriptor, once no process that this
 *   program is just starting has a copy of the socket.
 *
 * Kernels before 6.10 have one more case, which this module cannot avoid: any process that closes a
 * unix socket may have to close descriptors that the kernel's garbage collector finds in others.
 *
 * Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Makes the kernel refuse descriptors for a socket and, if it listens, for all its connections,
 * where the kernel supports that. Also makes urgent data arrive in line. */
void vgpu_untrusted_prepare(int fd);

/* Allows descriptors again, for a connection whose receiver may block. */
void vgpu_untrusted_allow(int fd);

/* recv() with MSG_DONTWAIT on a prepared socket. Returns the number of bytes, 0 at the end, or
 * -errno; -EPERM: a descriptor comes with or behind these bytes, and all stay unread. */
ssize_t vgpu_untrusted_receive(int fd, void *data, size_t size);

/* Closes a connection; in a process of its own if it holds unread descriptors. There are at most 16
 * such processes. If their files keep all of them from ending, although they were killed, up to 64
 * connections stay open, and the next process gets them all: such a peer costs one process per 64
 * connections. A program whose main() does not call vgpu_untrusted_main() closes all connections
 * itself, and may block. */
void vgpu_untrusted_close(int *fd);
/* Closes a listener and each connection in its backlog. */
void vgpu_untrusted_close_listener(int *fd);

/* Reaps such processes that have ended, as the next close also does. Returns whether some still
 * run. */
bool vgpu_untrusted_reap(void);

/* Keeps this process's memory out of core dumps and away from other processes of its user. No
 * effect with sanitizers, which need that access. */
void vgpu_hide_memory(void);

/* The body of such a process: main() calls it first, with its arguments. Returns true if
 * this was such a process, and its work is done; main() then returns 0. */
bool vgpu_untrusted_main(int argc, char **argv);
