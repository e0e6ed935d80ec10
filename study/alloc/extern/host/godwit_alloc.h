/* An allocator of one's own for godwit, as a shared library: export these five
 * functions and pass the library to --strategy lib:PATH.
 *
 *     cc -shared -fPIC -O2 -o mine.so mine.c
 *     godwit replay trace.csv --strategy fit,lib:./mine.so
 *
 * The allocator works on integers: it manages the addresses [0, size) and never
 * touches bytes there. It runs in a process of its own, on one thread; several
 * processes may run at a time. Every address is checked on the other side. */
#ifndef GODWIT_ALLOC_H
#define GODWIT_ALLOC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Define GODWIT_ALLOC_HANDLES before this file if free should get back what alloc
 * said, in place of the address: an allocator that knows its chunks by a pointer or an
 * index (VMA, OffsetAllocator) needs no map then. */
#ifdef GODWIT_ALLOC_HANDLES
#define GODWIT_ALLOC_ABI 2
#else
#define GODWIT_ALLOC_ABI 1
#endif
#define GODWIT_NO_ROOM UINT64_MAX

/* Returns GODWIT_ALLOC_ABI: which version of this file the library was made for. */
uint32_t godwit_alloc_abi(void);

/* Makes an empty allocator of size bytes that will hold at most so many chunks at
 * a time. NULL: it cannot manage that size, and nothing fits into it. */
void *godwit_alloc_open(uint64_t size, uint32_t chunks);

/* Frees what open made. */
void godwit_alloc_close(void *allocator);

/* Returns the address of size bytes, more than 0, at a multiple of align, a power
 * of two; GODWIT_NO_ROOM where there is no room, and then nothing has changed.
 *
 * hint is what the caller knows of the chunk's life. 0: nothing. With the highest
 * bit: the number of a class, whose chunks are freed together. Else: it is
 * expected to be freed after hint-1 further calls of alloc and free. */
#ifndef GODWIT_ALLOC_HANDLES
uint64_t godwit_alloc_alloc(void *allocator, uint64_t size, uint64_t align, uint64_t hint);

/* Gives back what alloc gave at addr. */
void godwit_alloc_free(void *allocator, uint64_t addr);
#else
/* What it writes to handle is what free gets, any value. */
uint64_t godwit_alloc_alloc(void *allocator, uint64_t size, uint64_t align, uint64_t hint, uint64_t *handle);

/* Gives back what alloc gave with that handle. */
void godwit_alloc_free(void *allocator, uint64_t handle);
#endif

#ifdef __cplusplus
}
#endif
#endif
