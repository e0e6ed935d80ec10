//go:build cgo

// An arena's table, as svm/table.go writes it; a test compares the sizes.
#ifndef GODWIT_SVM_TABLE_H
#define GODWIT_SVM_TABLE_H

#include <stdint.h>

enum { SLOT_FREE, SLOT_INTO, SLOT_AFTER };

typedef struct table_head {
	uint64_t base, size; // addresses of the arena
	uint64_t changes;    // atomic: odd while the table is written
	int64_t guards;      // atomic
	uint64_t used;
	char name[64];
} table_head;

typedef struct table_slot {
	uint64_t start, end, origin, stamp;
	uint32_t kind, size;
	char text[472];
} table_slot;

// gw_fault_watch makes a table known, and installs the handler before the first.
// go_start and go_end are where Go's code is. It returns the index for
// gw_fault_stop, -1 where there are too many, -2 where no handler can be installed.
__attribute__((visibility("hidden"))) int gw_fault_watch(const void *table, uintptr_t go_start, uintptr_t go_end);
__attribute__((visibility("hidden"))) void gw_fault_stop(int index);

#endif
