//go:build cgo

package opencl

import (
	"os"
	"strings"
)

// What is different on a platform. This file alone names platforms, and the rest of the
// driver reads the fields of quirks: behaviours, of which a platform that nobody knows
// has none. Each says why it is there, where it was seen and which test holds it; a test
// checks that it does.
//
// A behaviour that costs nothing where it is not needed has no field. It is everywhere,
// at the places that the list at the end names.
type quirks struct {
	// startsAtOnce: commands start when they are enqueued, without a flush, which can be
	// left out. OpenCL does not promise it.
	// Seen: NVIDIA 580.159.04. Test: TestLaunchesThatNobodyAsksAfterEndAllTheSame.
	startsAtOnce bool
	// takesBytesAtEnqueue: the bytes of a write out of pageable memory are taken when the
	// write is enqueued, whatever it waits for: before a read that it waits for has put
	// them there. So such a write is enqueued when its waits are reached. Page-locked
	// bytes are left where they are.
	// Seen: NVIDIA 580.159.04. Test: TestAWriteOfBytesThatAreStillToComeTakesThemWhenTheyHave.
	takesBytesAtEnqueue bool
	// slowCallbacks: a callback makes each command 3.5 us dearer, and comes up to 20 ms
	// late for commands longer than some hundred microseconds. So a thread of ours watches
	// the events.
	// Seen: NVIDIA 580.159.04. Test: TestACommandThatFailsOnTheDevice.
	slowCallbacks bool
	// slowEvents: an event makes a launch of 5 us 1.2 us dearer, and to look at events
	// while others are enqueued 0.5 to 1.5 us. A kernel that fails takes the context with
	// it, so that all later ones fail too. So unobserved launches have no
	// event, and fail together (unobserved.go).
	// Seen: NVIDIA 580.159.04. Test: TestUnobservedLaunchesEndWithAWaitOfAThreadsOwn.
	slowEvents bool
	// failedWaitsKeepOrder: a command in an in-order queue whose wait fails ends only after
	// the commands before it, and after its other waits. PoCL 3.1 ends it as soon as one of
	// its waits has failed, and what follows it with it; so may others.
	// Seen: NVIDIA 580.159.04. Test: TestWhatFollowsAFailedCommandWaitsForWhatThatWaitedFor.
	failedWaitsKeepOrder bool
	// subRectsCrash: a rectangle between two sub-buffers crashes. It is copied by rows. So does a copy between an image and
	// a sub-buffer: it names the slab.
	// Seen: PoCL 3.1. Test: TestConformance.
	subRectsCrash bool
	// groups32: work-groups are counted in 32 bits; a launch of a multiple of 2^32 divides by
	// zero and ends the process. More than fit are refused. It does the same with work-groups
	// of its own choice, so for more than 2^32 work-items it gets ours (devices.LocalSize).
	// Seen: PoCL 3.1. Test: TestLaunchesOfMoreGroupsThanPoCLCountsAreRefused.
	groups32 bool
	// crowdsBreak: with several GPUs, threads that enqueue commands while others set
	// arguments, or release events or kernels, break a list of the library's; it crashes in the
	// release of a sub-buffer, perhaps much later. All these calls exclude each other
	// (internal/ocl/loader.c, shape). None of them waits for more than a short transfer.
	// Seen: NVIDIA 580.159.04. Test: TestSubBuffersComeAndGoWhileCommandsAreEnqueued.
	crowdsBreak bool
	// windows: memory of CUDA's can be made a buffer, and CUDA copies it between GPUs over
	// NVLink, where OpenCL cannot (windows.go). Which versions can be trusted with that is
	// package nvlink's to say.
	// Seen: NVIDIA 580.159.04. Test: TestWindowsCarryWhatOpenCLComputes.
	windows bool
	// untried: windows are used whatever is known of the driver's version: a trial of it.
	// Seen: NVIDIA 580.159.04. Test: TestATrialSaysHowItWent.
	untried bool
	// oneThread: OpenCL runs a command only within clFinish, clFlush and clWaitForEvents, in
	// the thread that calls them; an event does not move, and no callback comes, before
	// somebody calls one of these for its queue. It has no locks: its reference counts, its
	// maps of commands and its memory are for one thread at a time, and a clFinish of a
	// queue whose next command waits for one of another queue never ends. A callback that is
	// set after the command has run is never called. Its checks for reads of uninitialised
	// bytes keep a pool of memory for the thread that made the context, and crash where
	// another allocates, builds or runs a kernel. So a worker makes all calls (worker.go).
	// Seen: Oclgrind 21.10. Test: TestOclgrindConforms.
	oneThread bool
	// checks: OpenCL looks for reads of bytes that nobody wrote, and does not follow what
	// the host does. With OCLGRIND_UNINITIALIZED=1 Oclgrind keeps, for each byte of a buffer,
	// whether it was ever written. What kernels do it follows byte by byte. What the host
	// does it gets wrong; in Oclgrind 21.10, of which the file is
	// src/plugins/Uninitialized.cpp:
	//
	//   - A write, a fill or a copy, and of a fill each pattern and of a rectangle each row,
	//     gives the buffer a new shadow that is as long as what was stored, whatever the
	//     offset (lines 1047 and 2403). All that kernels wrote there is uninitialised from
	//     then on, and so is what was stored anywhere but at the start; bytes below that
	//     length have the state that malloc left.
	//   - A copy makes its destination initialised, whatever its source was (Memory.cpp 593).
	//   - A new buffer has the shadow of a released one that had its number: nothing is told
	//     of either (line 30).
	//   - A buffer that kernels first see as a sub-buffer has the state that malloc left
	//     (lines 1855 and 2523).
	//   - It ends kernels that have a freeze instruction, which the optimiser makes (line
	//     1805), and crashes on some that sum vectors.
	//   - With OCLGRIND_QUICK it leaves out work-groups.
	//
	// So bytes are brought into buffers by kernels (shadow.go).
	// Seen: Oclgrind 21.10. Test: TestOclgrindConformsWhereItChecks.
	checks bool
}

// quirksOf are those of a platform, by its name.
func quirksOf(platform string) quirks {
	switch {
	case strings.Contains(platform, "NVIDIA"):
		return quirks{startsAtOnce: true, takesBytesAtEnqueue: true, slowCallbacks: true, slowEvents: true, failedWaitsKeepOrder: true, crowdsBreak: true, windows: true}
	case strings.Contains(platform, "Portable Computing Language"):
		return quirks{subRectsCrash: true, groups32: true}
	case strings.Contains(platform, "Oclgrind"):
		return quirks{oneThread: true, checks: os.Getenv("OCLGRIND_UNINITIALIZED") == "1"} // as Oclgrind reads it
	}
	return quirks{}
}

// Statuses that are a platform's own, or mean there what OpenCL does not say.
const (
	// kernelFault: an illegal memory access in a kernel. The device is lost.
	// Seen: NVIDIA 580.159.04. Test: TestALostDeviceSaysSoAndCanBeClosed.
	kernelFault = -9999
	// waitFailed: CL_DEVICE_NOT_FOUND in place of the status of a failed wait list.
	// Seen: PoCL 3.1. Test: TestWhatFollowsACommandThatIsRunAgainIsRunAgainToo.
	waitFailed = -1
)

// noWindows is why a platform's devices have no windows.
const noWindows = "links are for NVIDIA's GPUs, where nvlink=off (or GODWIT_NVLINK=off) is not set"

// driverPackage ends the advice to somebody who has no OpenCL.
const driverPackage = ", and a driver such as pocl-opencl-icd"

// Worked around everywhere:
//
//   - store.go, subBuffers: a sub-buffer that is released before a later one that
//     shares bytes with it, once kernels have used them, crashes the library; OpenCL allows
//     any order. The last one made is released first, of a slab whose bytes are given again
//     while commands use them (reuse.go) also across blocks.
//     Seen: NVIDIA 580.159.04. Test: TestSubBuffersThatShareBytesAreReleasedLastMadeFirst.
//   - internal/ocl/loader.c, shape: commands that are enqueued by one thread while another makes or
//     releases sub-buffers break a list of the library's; it crashes in a later release. The two exclude
//     each other. With several GPUs that is not enough (crowdsBreak).
//     Seen: NVIDIA 580.159.04. Test: TestSubBuffersComeAndGoWhileCommandsAreEnqueued.
//   - store.go, slabs and touches: to create and first touch a buffer costs tens of
//     microseconds and more, and memory is allocated in the command that first uses it,
//     where running out is an ugly failure.
//     Seen: NVIDIA 580.159.04. Test: TestAFullDeviceWorksAgainAfterARelease.
//   - lanes.go, lane: a marker waits for all commands before it in an out-of-order
//     queue, also where it is given some to wait for that have ended.
//     Seen: PoCL 3.1, NVIDIA 580.159.04. Test: TestAMarkerWithoutWaitsWaitsForNothing.
//   - record.go, followLocked: a command in an in-order queue ends as soon as one of its
//     waits has failed, when others, and commands before it, have not ended.
//     Seen: PoCL 3.1. Test: TestWhatFollowsAFailedCommandWaitsForWhatThatWaitedFor.
//   - internal/ocl/args.c, gw_set_args: each argument that is set costs 0.2 us. Those that
//     have not changed are not set again.
//     Seen: NVIDIA 580.159.04. Test: TestArgumentsAreThoseOfEachLaunch.
//   - internal/ocl/rect.c, gw_rect: an overlap is seen where no row meets another. Rows are
//     copied one by one then; who called has looked.
//     Seen: PoCL 3.1. Test: TestConformance.
//   - internal/ocl/rect.c, gw_rect: CL_INVALID_VALUE for a rectangle that keeps all of OpenCL's
//     rules, once in some 28,000 commands: 50x10x3 bytes with pitches of 78 and 858, at 19 of a
//     buffer of 3200 bytes and at 50 of one of 2560. Perhaps the last slice is counted with its
//     whole pitch. Rows are copied one by one then.
//     Seen: NVIDIA 580.159.04. Test: TestARectangleThatOpenCLRefusesIsCopiedByRows.
//   - internal/ocl/image.go, ImageFormats: CL_INVALID_VALUE for the formats of images of no flags, which OpenCL says are those of
//     CL_MEM_READ_WRITE.
//     Seen: NVIDIA 580.159.04. Test: TestFormatsOfNoFlagsAreThoseForAll.
//   - internal/ocl/program.go, Binary: a place for a binary that is NULL, which
//     OpenCL allows, crashes. All binaries are copied.
//     Seen: PoCL 3.1. Test: TestProgramsAreCompiledWithHeadersLinkedAndMadeOfBinaries.
//   - internal/ocl/program.go, Binary: there are fewer sizes of binaries than devices where
//     a program was built for some only: those of the last build.
//     Seen: PoCL 3.1. Test: TestTwoDevicesOnOneRealDeviceBuildTogether.
//   - internal/ocl/program.go, KernelNames: the names of no kernels crash.
//     Seen: NVIDIA 580.159.04. Test: TestAProgramMayHaveNoKernels.
//   - native.go, withArgInfo: kernels do not know their arguments unless the build asked.
//     Seen: PoCL 3.1. Test: TestArgumentsThatOpenCLSaysNothingOfTakeAnyKind.
//   - native.go, BuildInfo: the size of global variables, a size_t, is given as a cl_uint.
//     Seen: NVIDIA 580.159.04. Test: TestAProgramMayHaveNoKernels.
//   - native.go, NewBinaryProgram: any bytes are taken for a binary, and fail to build.
//     Seen: NVIDIA 580.159.04. Test: TestProgramErrorsCarryOpenCLsStatus.
//   - native_kernel.go, has: an argument that does not exist is called an invalid value.
//     Seen: NVIDIA 580.159.04. Test: TestKernelsAnswerOpenCLsQueries.
//   - platform.go, describe: CL_DEVICE_HOST_UNIFIED_MEMORY, which is deprecated, is left
//     unanswered by processors on some systems.
//     Seen: PoCL 3.1. Test: TestTransfersThatNeedNoOpenCLGiveItNothing.
//   - pinned.go, take: mapped memory is aligned to 128 bytes, or as malloc has it.
//     Seen: PoCL 3.1, Oclgrind 21.10. Test: TestConformance.
//   - svm.go, svmCaps: with two GPUs in a context coarse-grained memory does not work at
//     all (docs/measured.md). It is not used on any device.
//     Seen: NVIDIA 580.159.04. Test: TestConformance.
