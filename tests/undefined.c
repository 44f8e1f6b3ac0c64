/* SPDX-License-Identifier: MIT */
/* Does what no program may, for tests/sanitizers: a shift by as many bits as there are. */
int main(int argc, char **argv)
{
	(void)argv;
	return (1 << (argc + 31)) & 0;
}
