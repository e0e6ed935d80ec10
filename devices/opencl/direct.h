//go:build cgo

#ifndef GODWIT_DIRECT_H
#define GODWIT_DIRECT_H

#include "bridge.h"

// gw_direct_buffer makes a buffer and the memory that it is in, which goes with it when
// nothing uses it any more; 0 where there is no room.
GW_HIDDEN gw_handle gw_direct_buffer(gw_handle context, size_t size, void **memory);
// gw_memory_is_direct finds out whether commands of the queue use such memory where it
// is, and see at once what others write to it.
GW_HIDDEN int gw_memory_is_direct(gw_handle context, gw_handle queue);

#endif
