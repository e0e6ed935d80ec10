//go:build cgo

// OpenCL's own program objects, for NativeProgram. As in bridge.h, cl handles
// cross the border as integers and no function keeps a pointer to Go memory;
// lists of texts and of bytes come one after another in one array.
#ifndef GODWIT_NATIVE_H
#define GODWIT_NATIVE_H

#include "bridge.h"

GW_HIDDEN gw_handle gw_program_source(gw_handle context, const char *source, size_t n, cl_int *err);
GW_HIDDEN gw_handle gw_program_il(gw_handle context, const void *il, size_t n, cl_int *err);
// gw_program_binaries takes n binaries, of so many bytes each; each has its
// status.
GW_HIDDEN gw_handle gw_program_binaries(gw_handle context, uint32_t n, const gw_handle *devs, const size_t *lens, const unsigned char *bytes, cl_int *status, cl_int *err);
GW_HIDDEN cl_int gw_program_build(gw_handle program, uint32_t n, const gw_handle *devs, const char *options);
// gw_program_compile takes headers with their names, each ended by a zero.
GW_HIDDEN cl_int gw_program_compile(gw_handle program, uint32_t n, const gw_handle *devs, const char *options, uint32_t nheaders, const gw_handle *headers, const char *names);
// gw_program_link may return a program that failed to link, for its log.
GW_HIDDEN gw_handle gw_program_link(gw_handle context, uint32_t n, const gw_handle *devs, const char *options, uint32_t nprograms, const gw_handle *programs, cl_int *err);
GW_HIDDEN void gw_program_release(gw_handle program);

GW_HIDDEN cl_int gw_program_info(gw_handle program, uint32_t what, void *out, size_t n, size_t *len);
// gw_program_binary copies the binary for the device at an index of the program's
// ndevs; sizes are those of all binaries.
GW_HIDDEN cl_int gw_program_binary(gw_handle program, uint32_t index, uint32_t ndevs, const size_t *sizes, void *out);
GW_HIDDEN cl_int gw_build_info(gw_handle program, gw_handle dev, uint32_t what, void *out, size_t n, size_t *len);

GW_HIDDEN gw_handle gw_kernel_new(gw_handle program, const char *name, cl_int *err);
GW_HIDDEN void gw_kernel_release(gw_handle kernel);
GW_HIDDEN cl_int gw_kernel_info(gw_handle kernel, uint32_t what, void *out, size_t n, size_t *len);
GW_HIDDEN cl_int gw_kernel_arg_info(gw_handle kernel, uint32_t i, uint32_t what, void *out, size_t n, size_t *len);
GW_HIDDEN cl_int gw_kernel_group_info(gw_handle kernel, gw_handle dev, uint32_t what, void *out, size_t n, size_t *len);
GW_HIDDEN cl_int gw_kernel_subgroup_info(gw_handle kernel, gw_handle dev, uint32_t what, size_t nin, const void *in, void *out, size_t n, size_t *len);
GW_HIDDEN cl_int gw_set_arg(gw_handle kernel, uint32_t i, size_t n, const void *value);

#endif
