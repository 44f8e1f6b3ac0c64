/* SPDX-License-Identifier: MIT */
/* Has undefined behaviour, for tests/sanitizers: a shift by the width of the type. */
int main(int argc, char **)
{
	return (1 << (argc + 31)) & 0;
}
