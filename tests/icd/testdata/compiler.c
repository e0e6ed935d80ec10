/* A compiler that the instant driver loads when it first compiles (INSTANT_COMPILER), as NVIDIA's does: its statics
 * are destroyed at exit, and who compiles then ends the process. */
#include <stdlib.h>
#include <unistd.h>

static volatile int gone;

static void destroy(void) { gone = 1; }

__attribute__((constructor)) static void loaded(void) { atexit(destroy); }

/* compile takes 50 ms. */
void compile(void)
{
	for (int i = 0; i < 50; i++) {
		if (gone)
			abort();
		usleep(1000);
	}
}
