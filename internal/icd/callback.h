//go:build cgo

// Calls of the program's functions, which only C can make.
#ifndef GODWIT_ICD_CALLBACK_H
#define GODWIT_ICD_CALLBACK_H

#include "object.h"

// gw_call_object calls f(object, user): contexts', buffers' and programs' callbacks.
GW_HIDDEN void gw_call_object(void *f, uintptr_t object, void *user);
// gw_call_event calls f(event, status, user).
GW_HIDDEN void gw_call_event(void *f, uintptr_t event, int32_t status, void *user);
// gw_call_svm_free calls f(queue, n, pointers, user).
GW_HIDDEN void gw_call_svm_free(void *f, uintptr_t queue, uint32_t n, void *pointers, void *user);
// gw_call_native calls f(args): a native kernel.
GW_HIDDEN void gw_call_native(void *f, void *args);

#endif
