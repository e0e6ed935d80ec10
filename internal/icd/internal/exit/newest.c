//go:build cgo

// The newest handler of exit, always.
//
// Handlers of exit run newest first. A library's statics are destroyed by such
// handlers too, each registered when it is first used: by LLVM under PoCL in the
// middle of its first compilation, in whatever thread that is, up to the moment of
// exit and after it. A handler that must come before them all has to be registered
// after each: so where the libraries of this process call the function that registers,
// they call ours from here on, which does that and then registers the handler again.
//
// Their slots for that function are found as the dynamic linker finds them, in the
// tables of each library that is loaded. A compiler may be loaded when it is first needed, as
// NVIDIA's is, so libraries are looked for again after what may compile; an exit in the
// middle of the first compilation finds the handler second there. The program itself
// is left alone. Between the two registrations are some nanoseconds in which exit
// would find the handler second.
#define _GNU_SOURCE
#include "exit.h"
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern int __cxa_atexit(void (*destructor)(void *), void *object, void *dso);

#if __ELF_NATIVE_CLASS == 64
#define SYMBOL_OF(info) ELF64_R_SYM(info)
#else
#define SYMBOL_OF(info) ELF32_R_SYM(info)
#endif

static int registers(void (*destructor)(void *), void *object, void *dso)
{
	int err = __cxa_atexit(destructor, object, dso);
	gw_guard_again();
	return err;
}

// A library's tables, as far as they are used here.
typedef struct tables {
	uintptr_t base;
	const ElfW(Sym) *symbols;
	const char *names;
	const ElfW(Rela) *calls, *data;
	size_t ncalls, ndata;
	uintptr_t sealed, sealed_end; // pages that are read-only since the library was loaded
} tables;

// put writes a slot, unsealing its page for that long.
static void put(const tables *t, uintptr_t slot)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = slot & ~(page - 1);
	int sealed = slot >= t->sealed && slot < t->sealed_end;
	if (sealed && mprotect((void *)at, page, PROT_READ | PROT_WRITE) != 0)
		return;
	__atomic_store_n((uintptr_t *)slot, (uintptr_t)registers, __ATOMIC_RELEASE);
	if (sealed)
		mprotect((void *)at, page, PROT_READ);
}

static void scan(const tables *t, const ElfW(Rela) *r, size_t n)
{
	for (; n > 0; n--, r++) {
		size_t symbol = SYMBOL_OF(r->r_info);
		// With an addend it would be no slot of the linker's.
		if (symbol && r->r_addend == 0 && strcmp(t->names + t->symbols[symbol].st_name, "__cxa_atexit") == 0)
			put(t, t->base + r->r_offset);
	}
}

static void read_tables(tables *t, const ElfW(Dyn) *d)
{
	size_t relative = 0;
	int has_addends = 1;
	for (; d->d_tag != DT_NULL; d++) {
		switch (d->d_tag) {
		case DT_SYMTAB: t->symbols = (void *)d->d_un.d_ptr; break;
		case DT_STRTAB: t->names = (void *)d->d_un.d_ptr; break;
		case DT_JMPREL: t->calls = (void *)d->d_un.d_ptr; break;
		case DT_PLTRELSZ: t->ncalls = d->d_un.d_val / sizeof *t->calls; break;
		case DT_PLTREL: has_addends = d->d_un.d_val == DT_RELA; break;
		case DT_RELA: t->data = (void *)d->d_un.d_ptr; break;
		case DT_RELASZ: t->ndata = d->d_un.d_val / sizeof *t->data; break;
		case DT_RELACOUNT: relative = d->d_un.d_val; break; // those come first, and name nothing
		}
	}
	if (!t->calls || !has_addends)
		t->ncalls = 0;
	if (!t->data || relative > t->ndata)
		t->ndata = relative = 0;
	t->data += relative;
	t->ndata -= relative;
}

static int library(struct dl_phdr_info *l, size_t size, void *unused)
{
	(void)size, (void)unused;
	tables t = {.base = l->dlpi_addr};
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	int ours = 0;
	const ElfW(Dyn) *dynamic = NULL;
	for (int i = 0; i < l->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &l->dlpi_phdr[i];
		uintptr_t at = l->dlpi_addr + p->p_vaddr, end = at + p->p_memsz;
		if (p->p_type == PT_DYNAMIC)
			dynamic = (void *)at;
		else if (p->p_type == PT_GNU_RELRO)
			t.sealed = at & ~(page - 1), t.sealed_end = end & ~(page - 1);
		else if (p->p_type == PT_LOAD)
			ours |= (uintptr_t)registers >= at && (uintptr_t)registers < end;
	}
	if (ours || !dynamic || !l->dlpi_name || l->dlpi_name[0] != '/')
		return 0; // the program and the kernel's library have no path
	read_tables(&t, dynamic);
	if (t.symbols && t.names) {
		scan(&t, t.calls, t.ncalls);
		scan(&t, t.data, t.ndata);
	}
	return 0;
}

static int loaded(struct dl_phdr_info *l, size_t size, void *n)
{
	(void)size;
	*(unsigned long long *)n = l->dlpi_adds;
	return 1;
}

int gw_newest(void)
{
	static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; // one at a time unseals pages
	static unsigned long long before;                     // libraries that had been loaded; protected by mu
	unsigned long long now = 0;
	dl_iterate_phdr(loaded, &now);
	pthread_mutex_lock(&mu);
	int more = now != before;
	before = now;
	if (more)
		dl_iterate_phdr(library, NULL);
	pthread_mutex_unlock(&mu);
	return more;
}
