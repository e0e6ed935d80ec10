// Calls of CUDA's that Go makes, each in one step.
#ifndef GODWIT_CUDA_CALLS_H
#define GODWIT_CUDA_CALLS_H

#include "cuda.h"

// All return a CUresult.

GW_HIDDEN int gw_cu_init(gw_cuda *c);
GW_HIDDEN const char *gw_cu_name(gw_cuda *c, int result);
// gw_cu_find finds a GPU by its UUID; -1 where there is none.
GW_HIDDEN int gw_cu_find(gw_cuda *c, const unsigned char *uuid, int *device);
// gw_cu_exports finds out whether memory of a GPU can be exported, and of what its sizes
// are multiples.
GW_HIDDEN int gw_cu_exports(gw_cuda *c, int device, int *can, size_t *granularity);
// gw_cu_peer finds out whether one GPU reaches another's memory, and with native atomics.
GW_HIDDEN int gw_cu_peer(gw_cuda *c, int from, int to, int *access, int *atomics);
// gw_cu_context makes a context and leaves it current nowhere.
GW_HIDDEN int gw_cu_context(gw_cuda *c, int device, void **context);
GW_HIDDEN void gw_cu_context_end(gw_cuda *c, void *context);

// gw_cu_window makes a window: memory of the first of n GPUs, and an address, 0 before the call, at which
// all of them see it.
GW_HIDDEN int gw_cu_window(gw_cuda *c, const int *devices, int n, size_t size, uint64_t *handle, uint64_t *address);
// gw_cu_export gives the window's memory another descriptor.
GW_HIDDEN int gw_cu_export(gw_cuda *c, uint64_t handle, int *fd);
// gw_cu_window_end ends the window: its memory stays with who has imported it. What fails is
// passed over.
GW_HIDDEN void gw_cu_window_end(gw_cuda *c, uint64_t handle, size_t size, uint64_t address);

#endif
