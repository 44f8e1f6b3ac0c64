/* SPDX-License-Identifier: MIT */
/* Functions for the CPU and, by calls.cu, for the machine that runs PTX. A FUNCTION is not inlined
 * there. */
struct three {
	unsigned a;
	unsigned long long b;
	unsigned char c[5];
};

FUNCTION unsigned mix(unsigned x, unsigned y)
{
	for (unsigned i = 0; i < (y & 3); i++)
		x = x * 31 + y;
	return x;
}

FUNCTION double scaled(unsigned long long x, float f, double d)
{
	return (double)(x + mix((unsigned)x, 3)) * (double)f + d;
}

FUNCTION struct three turned(struct three p, unsigned k)
{
	struct three q = p;

	q.a = (unsigned)p.b;
	q.b = p.a;
	q.c[k % 5] = (unsigned char)k;
	return q;
}

FUNCTION short narrow(signed char c, bool b, unsigned short s)
{
	return (short)(b ? c : s);
}

FUNCTION void put(unsigned *to, unsigned v)
{
	*to += v;
}

FUNCTION unsigned long long work(unsigned i)
{
	struct three p = {mix(i, i + 1), i, {1, 2, 3, 4, 5}};

	if (i & 1)
		p.a = mix(p.a, 7);
	for (unsigned k = 0; k < i % 5; k++)
		put(&p.a, mix(k, p.a));
	p = turned(p, i);
	return p.a + p.b + p.c[i % 5] + (unsigned long long)scaled(p.b, (float)i, 0.5) +
	       (unsigned long long)narrow((signed char)i, i & 2, (unsigned short)p.b);
}
