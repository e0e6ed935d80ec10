/* The programs and kernels of the instant driver: nothing is compiled, but the source
 * is read for the kernels' names and arguments, which programs ask for. See instant.c.
 */
#include "instant.h"
#include <dlfcn.h>
#include <stdio.h>

COUNTED(program, cl_program, free(v->source))
COUNTED(kernel, cl_kernel, )

static cl_program CL_API_CALL program(cl_context c, cl_uint n, const char **texts, const size_t *lengths, cl_int *err)
{
	(void)c;
	cl_program p = made(sizeof *p);
	size_t len = 0;
	p->source = calloc(1, 1);
	for (cl_uint i = 0; i < n; i++) {
		size_t k = lengths && lengths[i] ? lengths[i] : strlen(texts[i]);
		p->source = realloc(p->source, len + k + 1);
		memcpy(p->source + len, texts[i], k);
		p->source[len += k] = 0;
	}
	if (err)
		*err = CL_SUCCESS;
	return p;
}

static cl_program CL_API_CALL program_binary(cl_context c, cl_uint n, const cl_device_id *d, const size_t *lengths, const unsigned char **b, cl_int *each, cl_int *err)
{
	(void)d;
	if (each)
		*each = CL_SUCCESS;
	return program(c, n, (const char **)b, lengths, err);
}

static cl_int CL_API_CALL build(cl_program p, cl_uint n, const cl_device_id *d, const char *options, void (CL_CALLBACK *f)(cl_program, void *), void *user)
{
	(void)n; (void)d; (void)options;
	const char *compiler = getenv("INSTANT_COMPILER");
	if (compiler) {
		void *lib = dlopen(compiler, RTLD_NOW | RTLD_LOCAL);
		void (*compile)(void) = lib ? (void (*)(void))dlsym(lib, "compile") : NULL;
		if (!compile)
			return CL_COMPILER_NOT_AVAILABLE;
		compile();
	}
	if (f)
		f(p, user);
	return CL_SUCCESS;
}

/* next_kernel finds the kernel after at: its name, and where its arguments start. */
static const char *next_kernel(const char *at, char found[128])
{
	while ((at = strstr(at, "kernel void "))) {
		at += strlen("kernel void ");
		size_t k = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
		if (k && k < 128 && at[k] == '(') {
			memcpy(found, at, k);
			found[k] = 0;
			return at + k + 1;
		}
	}
	return NULL;
}

static cl_kernel CL_API_CALL kernel(cl_program p, const char *wanted, cl_int *err)
{
	cl_kernel k = made(sizeof *k);
	const char *at = p->source;
	while ((at = next_kernel(at, k->name)) && strcmp(k->name, wanted) != 0)
		;
	if (err)
		*err = at ? CL_SUCCESS : CL_INVALID_KERNEL_NAME;
	if (!at) {
		free(k);
		return NULL;
	}
	char list[2048];
	size_t n = strcspn(at, ")");
	snprintf(list, sizeof list, "%.*s", (int)n, at);
	char *rest = list;
	for (char *one; (one = strsep(&rest, ",")) && k->n < 32;) {
		struct arg *a = &k->args[k->n++];
		for (char *word; (word = strsep(&one, " \n\t"));) {
			if (strcmp(word, "global") == 0) a->global = 1;
			else if (strcmp(word, "local") == 0) a->local = 1;
			else if (strcmp(word, "const") == 0) a->constant = 1;
			else if (*word && !a->type[0]) snprintf(a->type, sizeof a->type, "%s%s", word, a->global || a->local ? "*" : "");
			else if (*word) snprintf(a->name, sizeof a->name, "%s", word + strspn(word, "*"));
		}
	}
	return k;
}

static cl_int CL_API_CALL program_info(cl_program p, cl_program_info what, INFO)
{
	char names[2048] = "", one[128];
	size_t n = 0;
	for (const char *at = p->source; (at = next_kernel(at, one)); n++)
		snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", n ? ";" : "", one);
	switch (what) {
	case CL_PROGRAM_KERNEL_NAMES: return TEXT(names);
	case CL_PROGRAM_NUM_KERNELS: return ANSWER(size_t, n);
	case CL_PROGRAM_NUM_DEVICES: return ANSWER(cl_uint, 1);
	case CL_PROGRAM_DEVICES: return ANSWER(cl_device_id, &device);
	case CL_PROGRAM_BINARY_SIZES: return ANSWER(size_t, strlen(p->source) + 1);
	case CL_PROGRAM_BINARIES: memcpy(*(char **)to, p->source, strlen(p->source) + 1); return CL_SUCCESS;
	case CL_PROGRAM_SOURCE: return TEXT(p->source);
	}
	return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL build_info(cl_program p, cl_device_id d, cl_program_build_info what, INFO)
{
	(void)p; (void)d;
	switch (what) {
	case CL_PROGRAM_BUILD_STATUS: return ANSWER(cl_build_status, CL_BUILD_SUCCESS);
	case CL_PROGRAM_BINARY_TYPE: return ANSWER(cl_program_binary_type, CL_PROGRAM_BINARY_TYPE_EXECUTABLE);
	}
	return TEXT("");
}

static cl_int CL_API_CALL kernel_info(cl_kernel k, cl_kernel_info what, INFO)
{
	switch (what) {
	case CL_KERNEL_FUNCTION_NAME: return TEXT(k->name);
	case CL_KERNEL_NUM_ARGS: return ANSWER(cl_uint, k->n);
	}
	return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL arg_info(cl_kernel k, cl_uint i, cl_kernel_arg_info what, INFO)
{
	struct arg *a = &k->args[i];
	switch (what) {
	case CL_KERNEL_ARG_ADDRESS_QUALIFIER: return ANSWER(cl_kernel_arg_address_qualifier, a->global ? CL_KERNEL_ARG_ADDRESS_GLOBAL : a->local ? CL_KERNEL_ARG_ADDRESS_LOCAL : CL_KERNEL_ARG_ADDRESS_PRIVATE);
	case CL_KERNEL_ARG_ACCESS_QUALIFIER: return ANSWER(cl_kernel_arg_access_qualifier, CL_KERNEL_ARG_ACCESS_NONE);
	case CL_KERNEL_ARG_TYPE_QUALIFIER: return ANSWER(cl_kernel_arg_type_qualifier, a->constant ? CL_KERNEL_ARG_TYPE_CONST : 0);
	case CL_KERNEL_ARG_TYPE_NAME: return TEXT(a->type);
	case CL_KERNEL_ARG_NAME: return TEXT(a->name);
	}
	return CL_INVALID_VALUE;
}

static cl_int CL_API_CALL group_info(cl_kernel k, cl_device_id d, cl_kernel_work_group_info what, INFO)
{
	(void)k; (void)d;
	switch (what) {
	case CL_KERNEL_COMPILE_WORK_GROUP_SIZE: return answer((size_t[3]){0, 0, 0}, 3 * sizeof(size_t), room, to, need);
	case CL_KERNEL_WORK_GROUP_SIZE: return ANSWER(size_t, 1024);
	case CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE: return ANSWER(size_t, 32);
	}
	return ANSWER(cl_ulong, 0);
}

static cl_int CL_API_CALL set_arg(cl_kernel k, cl_uint i, size_t size, const void *v)
{
	(void)size; (void)v;
	if (i >= k->n)
		return CL_INVALID_ARG_INDEX;
	k->set |= 1u << i;
	return CL_SUCCESS;
}

void fill_programs(void)
{
	table.clCreateProgramWithSource = program; table.clCreateProgramWithBinary = program_binary; table.clBuildProgram = build;
	table.clRetainProgram = retain_program; table.clReleaseProgram = release_program;
	table.clGetProgramInfo = program_info; table.clGetProgramBuildInfo = build_info;
	table.clCreateKernel = kernel; table.clRetainKernel = retain_kernel; table.clReleaseKernel = release_kernel;
	table.clSetKernelArg = set_arg; table.clGetKernelInfo = kernel_info;
	table.clGetKernelArgInfo = arg_info; table.clGetKernelWorkGroupInfo = group_info;
}
