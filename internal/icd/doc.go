// Package icd is libgodwit.so: Godwit as an OpenCL driver, so that any OpenCL
// program runs on it unmodified.
//
//	go build -buildmode=c-shared -o bin/libgodwit.so ./cmd/libgodwit
//	OCL_ICD_VENDORS=$PWD/bin/libgodwit.so clinfo
//
// A program sees one platform, "Godwit", whose devices have separate memories.
// Its contexts, queues, buffers and events are those of package runtime, which
// moves buffers between the devices; its kernels are compiled and run by a real
// OpenCL library underneath (GODWIT_BACKEND), which is opened directly and never
// through the OpenCL loader that loaded this library.
//
// # Environment
//
//	GODWIT_BACKEND      pocl (the default), nvidia, oclgrind, or the path of a driver
//	GODWIT_DEVICES      how many devices, or which, or a file that lists them (devicefile.Wish)
//	GODWIT_DEVICE_TYPE  cpu, gpu or accelerator: what devices say they are
//	GODWIT_TRACE        a file, or - for standard error: every command and copy
//	GODWIT_COMMAND_BUFFER  the version of cl_khr_command_buffer that programs see, or off (versions.go)
//	GODWIT_ATEXIT       off leaves other libraries' registration of exit handlers alone
//	GODWIT_SUMMARY      a file: what moved, as JSON, when the program ends
//	GODWIT_HTML, GODWIT_TIMELINE  files of pictures of what ran, written at exit
//	GODWIT_RECORD       a file, appended to: what each command accessed, for godwit replay
//	GODWIT_DEBUG        anything: why calls failed, on standard error; with the word svm
//	                    shared virtual memory is out of bounds for the program outside
//	                    of its maps, and a touch there is explained (package internal/svmfault)
//
// # How entries are written
//
// The dispatch table is entries.h, which has a line for each entry with its types. The entry clFoo is
//
//   - a Go function gwFoo with the line "//export gwFoo", in any file here. Handles
//     (cl_context, cl_mem, ...) and addresses that are never followed are uintptr, since a program
//     may pass anything and Go must not take that for a pointer; other pointers are unsafe.Pointer;
//     cl_uint is uint32, cl_int int32, size_t uint64, bit fields uint64. Every
//     parameter has a name. It is not called once the process is exiting. Or
//   - a C function gwc_Foo, with GW_IN_GO before what it calls of Go; or
//   - an error, as the line says.
//
// A kind of object is a Go type with a destroy method and a table of it
// (object.go), which look handles up: nil is CL_INVALID_…, whatever was passed.
// destroy is called with the last reference and gives up, by release, what the
// object retained of others. Retain and release entries are in table.c.
//
// Info queries are a table of facts for each kind of object (info.go); a function that
// makes an object returns its handle and the status; an enqueue ends in queue.accepted,
// its wait list comes from clContext.waitList.
//
// One file has one job: platform.go, device.go, context.go, queue.go, event.go,
// buffer.go, transfer.go, map.go, svm.go; program*.go and kernel*.go; command_buffer.go, command.go, mutable.go.
package icd
