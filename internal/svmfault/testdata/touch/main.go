// Command touch touches shared virtual memory from Go and from C, for the tests of package svmfault.
package main

/*
#include <pthread.h>
static void *store_zero(void *p) { *(volatile unsigned char *)p = 0; return 0; }

// A thread that Go knows nothing of, and that has no alternative stack.
static void store_on_thread(void *p)
{
	pthread_t t;
	if (pthread_create(&t, 0, store_zero, p) == 0)
		pthread_join(t, 0);
}
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"godwit/internal/svmfault"
	"godwit/svm"
)

func must[T any](v T, err error) T {
	if err != nil {
		fmt.Println("child:", err)
		os.Exit(3)
	}
	return v
}

// scene is what a touch is about, and where.
type scene struct {
	a    *svm.Arena
	addr svm.Pointer
}

// set makes an arena with a history, and finds the address to touch.
func set(what string, a *svm.Arena) scene {
	const page = 4096
	cells := must(a.Alloc(2*page, 0, 0, "cells"))
	old := must(a.Alloc(page, 0, 0, "old"))
	short := must(a.Alloc(100, 0, 0, "short"))
	m := must(a.Map(cells+100, 200, svm.MapRead|svm.MapWrite))
	must(0, m.Grant())
	must(0, m.Drop("EnqueueSVMUnmap on queue q"))
	must(0, a.Free(old, "SVMFree"))
	switch what {
	case "unmapped":
		return scene{a, cells + 104}
	case "never mapped":
		return scene{a, cells + 5000}
	case "mapped for reading":
		must(0, must(a.Map(cells+page, page, svm.MapRead)).Grant())
		return scene{a, cells + page + 3}
	case "to be mapped":
		must(a.Map(cells+page, page, svm.MapRead))
		return scene{a, cells + page + 3}
	case "freed":
		return scene{a, old + 7}
	case "recycled":
		must(0, a.Recycle(old))
		return scene{a, old + 7}
	case "past the end":
		return scene{a, short + 110}
	}
	return scene{a, svm.Pointer(a.Bounds().End - 1)}
}

// main prints what must be said on standard output, and touches.
func main() {
	what, how, _ := strings.Cut(os.Args[1], "/")
	a := must(svm.New(svm.Options{Name: "test", Size: 1 << 24, Watch: svmfault.FromEnvironment()}))
	for i := range 20 { // others are there, too
		must(a.Alloc(uint64(1+i*1000), 0, 0, fmt.Sprintf("other %d", i)))
	}
	s := set(what, a)
	fmt.Printf("%v\n", &svm.Fault{Addr: s.addr, Why: a.Explain(s.addr)})
	known := must(a.Alloc(1, 0, 0, "")) // from where a pointer is made
	p := unsafe.Add(unsafe.Pointer(unsafe.SliceData(must(a.User(known, 1)))), int64(s.addr)-int64(known))
	switch how {
	case "thread":
		C.store_on_thread(p)
	case "go":
		*(*byte)(p) = 1
	case "guard":
		if err := a.Guard(func() { *(*byte)(p) = 1 }); err == nil || err.Error() != (&svm.Fault{Addr: s.addr, Why: a.Explain(s.addr)}).Error() {
			fmt.Println("child: guard:", err)
		}
		os.Exit(0)
	case "c in guard":
		_ = a.Guard(func() { C.store_zero(p) })
	default:
		C.store_zero(p)
	}
	fmt.Println("child: nothing happened")
	os.Exit(4)
}
