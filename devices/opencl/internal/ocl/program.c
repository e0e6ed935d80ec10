//go:build cgo

#include "calls.h"
#include <stdlib.h>
#include <string.h>

gw_handle gw_program_source(gw_handle context, const char *source, size_t n, cl_int *err)
{
	return (gw_handle)clCreateProgramWithSource((cl_context)context, 1, &source, &n, err);
}

gw_handle gw_program_il(gw_handle context, const void *il, size_t n, cl_int *err)
{
	return (gw_handle)clCreateProgramWithIL((cl_context)context, il, n, err);
}

gw_handle gw_program_binaries(gw_handle context, uint32_t n, const gw_handle *devs, const size_t *lens, const unsigned char *bytes, cl_int *status, cl_int *err)
{
	const unsigned char **at = calloc(n, sizeof *at);
	if (!at) {
		*err = CL_OUT_OF_HOST_MEMORY;
		return 0;
	}
	for (uint32_t i = 0; i < n; i++) {
		at[i] = bytes;
		bytes += lens[i];
	}
	cl_program p = clCreateProgramWithBinary((cl_context)context, n, (const cl_device_id *)devs, lens, at, status, err);
	free(at);
	return (gw_handle)p;
}

cl_int gw_program_build(gw_handle program, uint32_t n, const gw_handle *devs, const char *options)
{
	gw_compiles(1);
	cl_int err = clBuildProgram((cl_program)program, n, (const cl_device_id *)devs, options, NULL, NULL);
	gw_compiles(-1);
	return err;
}

cl_int gw_program_compile(gw_handle program, uint32_t n, const gw_handle *devs, const char *options, uint32_t nheaders, const gw_handle *headers, const char *names)
{
	const char **at = nheaders ? calloc(nheaders, sizeof *at) : NULL;
	if (nheaders && !at)
		return CL_OUT_OF_HOST_MEMORY;
	for (uint32_t i = 0; i < nheaders; i++) {
		at[i] = names;
		names += strlen(names) + 1;
	}
	gw_compiles(1);
	cl_int err = clCompileProgram((cl_program)program, n, (const cl_device_id *)devs, options, nheaders, nheaders ? (const cl_program *)headers : NULL, at, NULL, NULL);
	gw_compiles(-1);
	free(at);
	return err;
}

gw_handle gw_program_link(gw_handle context, uint32_t n, const gw_handle *devs, const char *options, uint32_t nprograms, const gw_handle *programs, cl_int *err)
{
	gw_compiles(1);
	gw_handle p = (gw_handle)clLinkProgram((cl_context)context, n, (const cl_device_id *)devs, options, nprograms, (const cl_program *)programs, NULL, NULL, err);
	gw_compiles(-1);
	return p;
}

void gw_program_release(gw_handle program) { clReleaseProgram((cl_program)program); }

cl_int gw_program_info(gw_handle program, uint32_t what, void *out, size_t n, size_t *len)
{
	return clGetProgramInfo((cl_program)program, what, n, out, len);
}

// All binaries are copied: not every platform takes NULL for the place of one.
cl_int gw_program_binary(gw_handle program, uint32_t index, uint32_t ndevs, const size_t *sizes, void *out)
{
	void **at = calloc(ndevs, sizeof *at);
	cl_int err = at ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
	for (uint32_t i = 0; i < ndevs && err == CL_SUCCESS; i++) {
		at[i] = i == index ? out : malloc(sizes[i] + 1);
		if (!at[i])
			err = CL_OUT_OF_HOST_MEMORY;
	}
	if (err == CL_SUCCESS)
		err = clGetProgramInfo((cl_program)program, CL_PROGRAM_BINARIES, ndevs * sizeof *at, at, NULL);
	for (uint32_t i = 0; at && i < ndevs; i++)
		if (i != index)
			free(at[i]);
	free(at);
	return err;
}

cl_int gw_build_info(gw_handle program, gw_handle dev, uint32_t what, void *out, size_t n, size_t *len)
{
	return clGetProgramBuildInfo((cl_program)program, (cl_device_id)dev, what, n, out, len);
}

gw_handle gw_kernel_new(gw_handle program, const char *name, cl_int *err)
{
	return (gw_handle)clCreateKernel((cl_program)program, name, err);
}

void gw_kernel_release(gw_handle kernel) { clReleaseKernel((cl_kernel)kernel); }

cl_int gw_kernel_info(gw_handle kernel, uint32_t what, void *out, size_t n, size_t *len)
{
	return clGetKernelInfo((cl_kernel)kernel, what, n, out, len);
}

cl_int gw_kernel_arg_info(gw_handle kernel, uint32_t i, uint32_t what, void *out, size_t n, size_t *len)
{
	return clGetKernelArgInfo((cl_kernel)kernel, i, what, n, out, len);
}

cl_int gw_kernel_group_info(gw_handle kernel, gw_handle dev, uint32_t what, void *out, size_t n, size_t *len)
{
	return clGetKernelWorkGroupInfo((cl_kernel)kernel, (cl_device_id)dev, what, n, out, len);
}

cl_int gw_kernel_subgroup_info(gw_handle kernel, gw_handle dev, uint32_t what, size_t nin, const void *in, void *out, size_t n, size_t *len)
{
	return clGetKernelSubGroupInfo((cl_kernel)kernel, (cl_device_id)dev, what, nin, nin ? in : NULL, n, out, len);
}

cl_int gw_set_arg(gw_handle kernel, uint32_t i, size_t n, const void *value)
{
	return clSetKernelArg((cl_kernel)kernel, i, n, value);
}
