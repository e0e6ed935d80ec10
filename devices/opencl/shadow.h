//go:build cgo

// What puts bytes into buffers so that Oclgrind's check for uninitialised reads
// knows of them; see shadow.go.
#ifndef GODWIT_SHADOW_H
#define GODWIT_SHADOW_H

#include "bridge.h"

typedef struct gw_shadow gw_shadow;
// gw_shadow_wanted is whether the environment asks Oclgrind for that check.
GW_HIDDEN int gw_shadow_wanted(void);
GW_HIDDEN gw_shadow *gw_shadow_new(gw_handle context, cl_int *err);
GW_HIDDEN void gw_shadow_free(gw_shadow *s);
// gw_shadow_fresh makes all bytes of a new buffer uninitialised.
GW_HIDDEN cl_int gw_shadow_fresh(gw_shadow *s, gw_handle queue, gw_handle mem);
// gw_shadow_submit is gw_submit for a command without waits and tag. It may return
// when the command has ended.
GW_HIDDEN cl_int gw_shadow_submit(gw_shadow *s, gw_cmd *c, const void *args, void *host);

#endif
