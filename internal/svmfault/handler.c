//go:build cgo

#define _GNU_SOURCE
#include "table.h"
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#define MAX_TABLES 64
#define MAX_TRIES 10000 // of reading a table that is being written

// What is watched. base is written last and taken away first, so that a reader
// who saw it finds the rest.
static struct { uintptr_t base, size; const table_head *head; } watched[MAX_TABLES]; // base, head: atomic

static uintptr_t go_from, go_to;     // written once, before the handler is there
static struct sigaction before;      // as above
static int install_failed;           // as above
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t writers = PTHREAD_MUTEX_INITIALIZER;

// A line being made. Nothing here may call the C library but write.
typedef struct line { char text[1024]; size_t n; } line;

static void put(line *l, const char *s, size_t n)
{
	for (size_t i = 0; i < n && l->n < sizeof l->text; i++)
		l->text[l->n++] = s[i];
}

#define PUT(l, s) put(l, s, sizeof s - 1)

static void put_number(line *l, uint64_t v, unsigned base)
{
	char digits[24];
	size_t n = sizeof digits;
	do
		digits[--n] = "0123456789abcdef"[v % base];
	while (v /= base);
	put(l, digits + n, sizeof digits - n);
}

// newest copies the newest slot that holds addr to *out. It returns 0 where there
// is none, and -1 where the table never stood still.
static int newest(const table_head *head, uint64_t addr, table_slot *out)
{
	const table_slot *slots = (const table_slot *)(head + 1);
	for (int try = 0; try < MAX_TRIES; try++) {
		uint64_t changes = __atomic_load_n(&head->changes, __ATOMIC_SEQ_CST);
		if (changes & 1)
			continue;
		const table_slot *best = NULL;
		for (uint64_t i = 0, n = head->used; i < n; i++)
			if (slots[i].kind != SLOT_FREE && slots[i].start <= addr && addr < slots[i].end && (!best || slots[i].stamp > best->stamp))
				best = &slots[i];
		if (best) {
			const char *from = (const char *)best;
			for (size_t i = 0; i < sizeof *out; i++)
				((volatile char *)out)[i] = from[i]; // volatile: no memcpy
		}
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (__atomic_load_n(&head->changes, __ATOMIC_SEQ_CST) == changes)
			return best != NULL;
	}
	return -1;
}

// explain writes what is known of a touch of addr: svm.Fault's text.
static void explain(const table_head *head, uint64_t addr)
{
	table_slot s;
	line l;
	l.n = 0;
	PUT(&l, "godwit: touch of 0x");
	put_number(&l, addr, 16);
	PUT(&l, ": ");
	int found = newest(head, addr, &s);
	if (found < 0) {
		PUT(&l, "the table of its arena is being written");
	} else if (found == 0) {
		PUT(&l, "nothing is allocated there");
	} else {
		if (s.kind == SLOT_INTO)
			PUT(&l, "byte ");
		put_number(&l, addr - s.origin, 10);
		if (s.kind == SLOT_INTO)
			PUT(&l, " of ");
		else
			PUT(&l, " bytes past the end of ");
		put(&l, s.text, s.size < sizeof s.text ? s.size : sizeof s.text);
	}
	PUT(&l, ": shared virtual memory touched outside a map\n");
	for (size_t done = 0; done < l.n;) {
		ssize_t n = write(STDERR_FILENO, l.text + done, l.n - done);
		if (n <= 0)
			return;
		done += (size_t)n;
	}
}

static uintptr_t program_counter(void *context)
{
#if defined(__x86_64__)
	return (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (uintptr_t)((ucontext_t *)context)->uc_mcontext.pc;
#else
	(void)context;
	return 0; // as if it were C
#endif
}

static void handler(int sig, siginfo_t *info, void *context)
{
	uintptr_t addr = (uintptr_t)info->si_addr;
	for (int i = 0; info->si_code > 0 && i < MAX_TABLES; i++) {
		uintptr_t base = __atomic_load_n(&watched[i].base, __ATOMIC_SEQ_CST);
		const table_head *head = __atomic_load_n(&watched[i].head, __ATOMIC_SEQ_CST);
		if (!base || !head || addr - base >= watched[i].size)
			continue;
		uintptr_t pc = program_counter(context);
		int guarded = go_from <= pc && pc < go_to && __atomic_load_n(&head->guards, __ATOMIC_SEQ_CST) > 0;
		if (!guarded)
			explain(head, addr);
		break;
	}
	if (before.sa_flags & SA_SIGINFO) {
		before.sa_sigaction(sig, info, context);
	} else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
		signal(sig, SIG_DFL); // the touch happens again, and crashes
	} else {
		before.sa_handler(sig);
	}
}

static void install(void)
{
	struct sigaction now;
	memset(&now, 0, sizeof now);
	now.sa_sigaction = handler;
	now.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	sigfillset(&now.sa_mask);
	install_failed = sigaction(SIGSEGV, NULL, &before) || sigaction(SIGSEGV, &now, NULL);
}

int gw_fault_watch(const void *table, uintptr_t go_start, uintptr_t go_end)
{
	const table_head *head = table;
	int i = 0;
	pthread_mutex_lock(&writers);
	if (!go_to) {
		go_from = go_start;
		go_to = go_end;
	}
	pthread_once(&once, install);
	while (i < MAX_TABLES && watched[i].head)
		i++;
	if (install_failed) {
		i = -2;
	} else if (i == MAX_TABLES) {
		i = -1;
	} else {
		watched[i].size = head->size;
		__atomic_store_n(&watched[i].head, head, __ATOMIC_SEQ_CST);
		__atomic_store_n(&watched[i].base, head->base, __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&writers);
	return i;
}

void gw_fault_stop(int i)
{
	pthread_mutex_lock(&writers);
	__atomic_store_n(&watched[i].base, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&watched[i].head, NULL, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&writers);
}
