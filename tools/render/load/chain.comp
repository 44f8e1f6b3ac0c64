#version 450
// Each invocation carries its number on by `steps` steps of a linear congruential generator.
layout(local_size_x = 64) in;
layout(binding = 0) buffer Numbers { uint number[]; };
layout(push_constant) uniform Work { uint steps; };

void main()
{
	uint x = number[gl_GlobalInvocationID.x] + 1u;

	for (uint i = 0; i < steps; i++)
		x = x * 1664525u + 1013904223u;
	number[gl_GlobalInvocationID.x] = x;
}
