/* SPDX-License-Identifier: MIT */
#include "exit_code.h"

#include <errno.h>

int exit_code_of(int r)
{
	return r == -EACCES	  ? EXIT_DENIED
	       : r == -ENOENT	  ? EXIT_NOT_FOUND
	       : r == -ECONNRESET ? EXIT_NO_DAEMON
	       : r == -EHOSTDOWN  ? EXIT_NO_DAEMON
				  : EXIT_FAILED;
}
