//go:build cgo

#include "callback.h"

// OWN_STACK stands before a call of a function of the program's: after it the thread, which
// may be one of Go's, has its own signal stack again, whatever the function did with it.
#define OWN_STACK __attribute__((cleanup(give_back))) stack_t own_stack = own()

static stack_t own(void)
{
	stack_t now;
	sigaltstack(NULL, &now);
	return now;
}

static void give_back(const stack_t *own) { sigaltstack(own, NULL); }

void gw_call_object(void *f, uintptr_t object, void *user)
{
	OWN_STACK;
	((void(CL_CALLBACK *)(void *, void *))f)((void *)object, user);
}

void gw_call_event(void *f, uintptr_t event, int32_t status, void *user)
{
	OWN_STACK;
	((void(CL_CALLBACK *)(cl_event, cl_int, void *))f)((cl_event)event, status, user);
}

void gw_call_svm_free(void *f, uintptr_t queue, uint32_t n, void *pointers, void *user)
{
	OWN_STACK;
	((void(CL_CALLBACK *)(cl_command_queue, cl_uint, void **, void *))f)((cl_command_queue)queue, n, pointers, user);
}

void gw_call_native(void *f, void *args)
{
	OWN_STACK;
	((void(CL_CALLBACK *)(void *))f)(args);
}
