//go:build cgo

// The functions of cl_khr_command_buffer, in the words of entries.h, and
//
//   RECORDS(Foo, types...)         clFoo, by the Go function gwFoo, of a command buffer, a queue, properties, and more.
//                                  Version 0.9.0 has it without properties
//   BEFORE(Foo, types...)          what that version has in place of the next line's, by gwLinkedFoo
#define POINTS cl_uint, const cl_uint *, cl_uint *, gw_command *

MAKES(gw_command_buffer, CreateCommandBufferKHR, cl_uint, const cl_command_queue *, const cl_properties *)
COUNTED(CommandBufferKHR, gw_command_buffer)
GO(FinalizeCommandBufferKHR, gw_command_buffer)
GO(EnqueueCommandBufferKHR, cl_uint, cl_command_queue *, gw_command_buffer, WAITS)
GO(GetCommandBufferInfoKHR, gw_command_buffer, cl_uint, ANSWER)
RECORDS(CommandBarrierWithWaitListKHR, POINTS)
RECORDS(CommandCopyBufferKHR, cl_mem, cl_mem, size_t, size_t, size_t, POINTS)
RECORDS(CommandCopyBufferRectKHR, cl_mem, cl_mem, RECTANGLE, POINTS)
RECORDS(CommandFillBufferKHR, cl_mem, const void *, size_t, size_t, size_t, POINTS)
RECORDS(CommandSVMMemcpyKHR, void *, const void *, size_t, POINTS)
RECORDS(CommandSVMMemFillKHR, void *, const void *, size_t, size_t, POINTS)
GO(CommandNDRangeKernelKHR, gw_command_buffer, cl_command_queue, const cl_properties *, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, POINTS)
RECORDS(CommandCopyBufferToImageKHR, cl_mem, cl_mem, size_t, const size_t *, const size_t *, POINTS)
RECORDS(CommandCopyImageKHR, cl_mem, cl_mem, const size_t *, const size_t *, const size_t *, POINTS)
RECORDS(CommandCopyImageToBufferKHR, cl_mem, cl_mem, const size_t *, const size_t *, size_t, POINTS)
RECORDS(CommandFillImageKHR, cl_mem, const void *, const size_t *, const size_t *, POINTS)
BEFORE(UpdateMutableCommandsKHR, gw_command_buffer, const gw_updates *)
GO(UpdateMutableCommandsKHR, gw_command_buffer, cl_uint, const cl_uint *, const void **)
GO(GetMutableCommandInfoKHR, gw_command, cl_uint, ANSWER)
MAKES(gw_command_buffer, RemapCommandBufferKHR, gw_command_buffer, cl_bool, cl_uint, const cl_command_queue *, cl_uint, const gw_command *, gw_command *)
