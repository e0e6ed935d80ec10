//go:build cgo

#include "calls.h"
#include <string.h>

int gw_cu_init(gw_cuda *c) { return CU(c, init, 0); }

const char *gw_cu_name(gw_cuda *c, int result)
{
	const char *name = NULL;
	if (CU(c, error_name, result, &name) != CU_OK || !name)
		return "an error that it has no name for";
	return name;
}

int gw_cu_find(gw_cuda *c, const unsigned char *uuid, int *device)
{
	int n = 0, r = CU(c, device_count, &n);
	for (int i = 0; i < n && r == CU_OK; i++) {
		unsigned char its[16];
		if ((r = CU(c, device_get, device, i)) == CU_OK && (r = CU(c, device_uuid, its, *device)) == CU_OK &&
		    memcmp(its, uuid, sizeof its) == 0)
			return CU_OK;
	}
	return r == CU_OK ? -1 : r;
}

static cu_prop on(int device)
{
	return (cu_prop){.type = CU_PINNED, .handle_types = CU_POSIX_FD, .location = {CU_ON_DEVICE, device}};
}

int gw_cu_exports(gw_cuda *c, int device, int *can, size_t *granularity)
{
	int maps = 0, exports = 0;
	cu_prop p = on(device);
	int r = CU(c, device_attribute, &maps, CU_CAN_MAP, device);
	if (r == CU_OK)
		r = CU(c, device_attribute, &exports, CU_CAN_EXPORT, device);
	*can = maps && exports;
	if (r == CU_OK && *can)
		r = CU(c, granularity, granularity, &p, 0);
	return r;
}

int gw_cu_peer(gw_cuda *c, int from, int to, int *access, int *atomics)
{
	int r = CU(c, p2p_attribute, access, CU_P2P_ACCESS, from, to);
	return r == CU_OK ? CU(c, p2p_attribute, atomics, CU_P2P_ATOMICS, from, to) : r;
}

int gw_cu_context(gw_cuda *c, int device, void **context)
{
	int r = CU(c, ctx_create, context, 0, device);
	if (r != CU_OK)
		return r;
	void *popped;
	CU(c, ctx_pop, &popped);
	return CU_OK;
}

void gw_cu_context_end(gw_cuda *c, void *context) { CU(c, ctx_destroy, context); }

int gw_cu_window(gw_cuda *c, const int *devices, int n, size_t size, uint64_t *handle, uint64_t *address)
{
	cu_prop p = on(devices[0]);
	cu_access access[n];
	for (int i = 0; i < n; i++)
		access[i] = (cu_access){{CU_ON_DEVICE, devices[i]}, CU_READ_WRITE};
	int r = CU(c, mem_create, handle, size, &p, 0);
	if (r != CU_OK)
		return r;
	uint64_t at = 0;
	if ((r = CU(c, mem_reserve, &at, size, 0, 0, 0)) == CU_OK) {
		if ((r = CU(c, mem_map, at, size, 0, *handle, 0)) != CU_OK)
			CU(c, mem_free, at, size);
		else if ((r = CU(c, mem_access, *address = at, size, access, n)) == CU_OK)
			return CU_OK;
	}
	gw_cu_window_end(c, *handle, size, *address);
	return r;
}

int gw_cu_export(gw_cuda *c, uint64_t handle, int *fd) { return CU(c, mem_export, fd, handle, CU_POSIX_FD, 0); }

void gw_cu_window_end(gw_cuda *c, uint64_t handle, size_t size, uint64_t address)
{
	if (address && CU(c, mem_unmap, address, size) == CU_OK)
		CU(c, mem_free, address, size);
	CU(c, mem_release, handle);
}
