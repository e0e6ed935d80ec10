//go:build cgo

#include "callback.h"

void gw_call_object(void *f, uintptr_t object, void *user) { ((void(CL_CALLBACK *)(void *, void *))f)((void *)object, user); }

void gw_call_event(void *f, uintptr_t event, int32_t status, void *user)
{
	((void(CL_CALLBACK *)(cl_event, cl_int, void *))f)((cl_event)event, status, user);
}

void gw_call_svm_free(void *f, uintptr_t queue, uint32_t n, void *pointers, void *user)
{
	((void(CL_CALLBACK *)(cl_command_queue, cl_uint, void **, void *))f)((cl_command_queue)queue, n, pointers, user);
}

void gw_call_native(void *f, void *args) { ((void(CL_CALLBACK *)(void *))f)(args); }
