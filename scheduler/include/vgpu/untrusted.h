/* SPDX-License-Identifier: MIT */
/*
 * A unix stream socket whose peer is less trusted than this process.
 *
 * Along with bytes the peer can send descriptors (SCM_RIGHTS). The danger is not to receive them
 * but to close them, and the kernel closes descriptors that are not received. The last close of a
 * descriptor takes as long as its file likes: a TCP socket with SO_LINGER for hours, a file of a
 * FUSE server for ever. A thread that reads such a message without taking the descriptors, or
 * closes a socket in which one is waiting, waits for that. So no thread that others wait for does
 * either:
 *
 * - Linux 6.16 and newer refuse descriptors for the socket (SO_PASSRIGHTS): the peer's sendmsg()
 *   fails with EPERM.
 * - Before a read, bytes are looked at (MSG_PEEK), and read only if no descriptor goes with them.
 *   This holds on every kernel, and for what was sent before descriptors were refused.
 * - A socket in which a descriptor is unread is closed by a process that does nothing else, when no
 *   process that this one was just starting has a copy of it any more.
 *
 * Not more can be done here about kernels older than 6.10, where any process that closes a unix
 * socket may have to close what the kernel's garbage collector finds in others.
 *
 * Any thread.
 */
#ifndef VGPU_UNTRUSTED_H
#define VGPU_UNTRUSTED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Makes the kernel refuse descriptors for a socket and, if it listens, for all connections to it,
 * where the kernel can; and urgent bytes come in line with others. */
void vgpu_untrusted_prepare(int fd);

/* Lets descriptors come again, for a connection whose receiver can wait for their end. */
void vgpu_untrusted_allow(int fd);

/* recv() with MSG_DONTWAIT on a prepared socket. How many bytes came, 0 at the end, or -errno;
 * -EPERM: a descriptor goes with some of these bytes, or comes behind them; all stay unread. */
ssize_t vgpu_untrusted_receive(int fd, void *data, size_t size);

/* Closes a connection, in a process of its own if there are unread descriptors. At most 16 of these
 * processes are tried for; if files keep all of them from their end, although they were killed, 64
 * connections stay open at most, and the next process gets all of them: such a peer costs a process
 * for 64 connections. A program whose main() does not call vgpu_untrusted_main() closes all itself,
 * and waits.
 */
void vgpu_untrusted_close(int *fd);
/* Closes a listener, and each connection that waits there. */
void vgpu_untrusted_close_listener(int *fd);

/* Frees what such processes leave when they have ended; the next close does so, too. Returns
 * whether some still run. */
bool vgpu_untrusted_reap(void);

/* From now on no core dump has this process's memory, and other processes of its user cannot look
 * into it. Not with sanitizers, which do. */
void vgpu_hide_memory(void);

/* What that process runs: the program's main() calls it first, with its arguments. True: this was
 * such a process, and has done its work; main() returns 0. */
bool vgpu_untrusted_main(int argc, char **argv);

#endif
