//go:build cgo

// Package ctouch touches memory from C, for tests of faults.
package ctouch

/*
#include <pthread.h>
static unsigned char load(void *p) { return *(volatile unsigned char *)p; }
static void store(void *p, unsigned char v) { *(volatile unsigned char *)p = v; }

static void *store_zero(void *p) { store(p, 0); return 0; }

// A thread that Go knows nothing of, and that has no alternative stack.
static void store_on_thread(void *p)
{
	pthread_t t;
	if (pthread_create(&t, 0, store_zero, p) == 0)
		pthread_join(t, 0);
}
*/
import "C"

import "unsafe"

// load reads the byte at p.
func Load(p unsafe.Pointer) byte { return byte(C.load(p)) }

// Store writes the byte at p.
func Store(p unsafe.Pointer, v byte) { C.store(p, C.uchar(v)) }

// StoreOnThread writes zero to p on a thread of C's own.
func StoreOnThread(p unsafe.Pointer) { C.store_on_thread(p) }
