// What this package needs of CUDA's driver library: declared here, found at run time.
#ifndef GODWIT_CUDA_H
#define GODWIT_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define GW_HIDDEN __attribute__((visibility("hidden")))

// Results (CUresult) that mean something here.
enum { CU_OK = 0, CU_OUT_OF_MEMORY = 2, CU_DEINITIALIZED = 4, CU_NOT_READY = 600, CU_UNKNOWN = 999 };

typedef struct cu_location { int type, id; } cu_location;

// cu_prop is CUmemAllocationProp.
typedef struct cu_prop {
	int type, handle_types;
	cu_location location;
	void *win32;
	unsigned char compression, rdma;
	unsigned short usage;
	unsigned char reserved[4];
} cu_prop;

// cu_access is CUmemAccessDesc.
typedef struct cu_access { cu_location location; int flags; } cu_access;

enum {
	CU_PINNED = 1,          // cu_prop.type
	CU_POSIX_FD = 1,        // cu_prop.handle_types
	CU_ON_DEVICE = 1,       // cu_location.type
	CU_READ_WRITE = 3,      // cu_access.flags
	CU_NON_BLOCKING = 1,    // of streams: they do not wait for the legacy stream
	CU_NO_TIMING = 2,       // of events
	CU_CAN_MAP = 102,       // device attributes: virtual memory management,
	CU_CAN_EXPORT = 103,    // POSIX file descriptors
	CU_P2P_ACCESS = 2,      // attributes of two devices: access,
	CU_P2P_ATOMICS = 3,     // native atomics: NVLink has them, PCIe has not
};

// The functions, each by the name of the version whose form is given here.
#define CU_FUNCTIONS(X) \
	X(init, "cuInit", (unsigned flags)) \
	X(error_name, "cuGetErrorName", (int result, const char **name)) \
	X(device_count, "cuDeviceGetCount", (int *n)) \
	X(device_get, "cuDeviceGet", (int *device, int ordinal)) \
	X(device_uuid, "cuDeviceGetUuid_v2", (unsigned char *uuid, int device)) \
	X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device)) \
	X(p2p_attribute, "cuDeviceGetP2PAttribute", (int *value, int attribute, int from, int to)) \
	X(granularity, "cuMemGetAllocationGranularity", (size_t *bytes, const cu_prop *prop, int option)) \
	X(mem_create, "cuMemCreate", (uint64_t *handle, size_t size, const cu_prop *prop, unsigned long long flags)) \
	X(mem_export, "cuMemExportToShareableHandle", (void *fd, uint64_t handle, int type, unsigned long long flags)) \
	X(mem_release, "cuMemRelease", (uint64_t handle)) \
	X(mem_reserve, "cuMemAddressReserve", (uint64_t *address, size_t size, size_t align, uint64_t near, unsigned long long flags)) \
	X(mem_free, "cuMemAddressFree", (uint64_t address, size_t size)) \
	X(mem_map, "cuMemMap", (uint64_t address, size_t size, size_t offset, uint64_t handle, unsigned long long flags)) \
	X(mem_unmap, "cuMemUnmap", (uint64_t address, size_t size)) \
	X(mem_access, "cuMemSetAccess", (uint64_t address, size_t size, const cu_access *access, size_t n)) \
	X(ctx_create, "cuCtxCreate_v2", (void **context, unsigned flags, int device)) \
	X(ctx_destroy, "cuCtxDestroy_v2", (void *context)) \
	X(ctx_push, "cuCtxPushCurrent_v2", (void *context)) \
	X(ctx_pop, "cuCtxPopCurrent_v2", (void **context)) \
	X(stream_create, "cuStreamCreate", (void **stream, unsigned flags)) \
	X(stream_destroy, "cuStreamDestroy_v2", (void *stream)) \
	X(stream_query, "cuStreamQuery", (void *stream)) \
	X(event_create, "cuEventCreate", (void **event, unsigned flags)) \
	X(event_destroy, "cuEventDestroy_v2", (void *event)) \
	X(event_record, "cuEventRecord", (void *event, void *stream)) \
	X(event_query, "cuEventQuery", (void *event)) \
	X(copy, "cuMemcpyDtoDAsync_v2", (uint64_t to, uint64_t from, size_t size, void *stream))

// gw_cuda is the library's functions.
typedef struct gw_cuda {
#define CU_FIELD(field, symbol, params) int (*field) params;
	CU_FUNCTIONS(CU_FIELD)
#undef CU_FIELD
} gw_cuda;

// gw_cuda_open opens the library. Where it cannot, it returns NULL: *lacking is then the
// function that the library lacks, or NULL, and why says more; it is valid until the thread's
// next dlopen.
GW_HIDDEN gw_cuda *gw_cuda_open(const char *library, const char **lacking, const char **why);
// gw_cuda_forked reports whether this process is a child of the one that opened the
// library: nothing of CUDA's works there.
GW_HIDDEN int gw_cuda_forked(void);

// Every call is made between enter and leave. enter refuses, with 0, in a child and once
// the process exits; exit waits for who is inside.
GW_HIDDEN int gw_cuda_enter(void);
GW_HIDDEN void gw_cuda_leave(void);
// gw_cuda_guard_again registers our handler of exit once more, so that it comes before
// those which the library has registered up to now.
GW_HIDDEN void gw_cuda_guard_again(void);

#define CU(cuda, f, ...) __extension__({ \
	int result_ = CU_DEINITIALIZED; \
	if (gw_cuda_enter()) { \
		result_ = (cuda)->f(__VA_ARGS__); \
		gw_cuda_leave(); \
	} \
	result_; \
})
// gw_cuda_stay is enter for a thread that nobody needs once the process exits: it does not
// return then.
GW_HIDDEN void gw_cuda_stay(void);

#endif
