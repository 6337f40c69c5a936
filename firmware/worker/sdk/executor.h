/* Makes a C program an executor: include this, and call serve from main. A function maps
   each unit of its input by itself; it returns the number of bytes that it wrote to output,
   at most room, or -1 if it failed. Little-endian machines alone. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int32_t (*executor_function)(const uint8_t *input, uint32_t n, uint8_t *output, uint32_t room);

static uint64_t executor_cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* serve serves functions, which requests name by their place from 0, until the input ends.
   An output has at most room bytes. */
static int serve(const executor_function *functions, uint32_t count, uint32_t room)
{
	uint32_t head[2], size = 0;
	uint8_t *input = NULL, *output = malloc(room);
	while (output && fread(head, sizeof head, 1, stdin) == 1) {
		if (head[1] > size) {
			free(input);
			input = malloc(size = head[1]);
		}
		if (head[1] && (!input || fread(input, head[1], 1, stdin) != 1))
			return 1;
		uint64_t ns = executor_cpu_ns();
		int32_t n = head[0] < count ? functions[head[0]](input, head[1], output, room) : -1;
		ns = executor_cpu_ns() - ns;
		fwrite(&ns, sizeof ns, 1, stdout);
		fwrite(&n, sizeof n, 1, stdout);
		if (n > 0)
			fwrite(output, (size_t)n, 1, stdout);
		fflush(stdout);
	}
	return 0;
}
