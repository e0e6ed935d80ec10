package mem

import "errors"

// Status is an OpenCL status code: 0 is success, errors are negative. It is
// also the form of an event's execution status.
type Status int32

// The OpenCL status codes that Godwit's errors map to, by their OpenCL names
// without CL_.
const (
	Success                    Status = 0
	DeviceNotFound             Status = -1
	DeviceNotAvailable         Status = -2
	MemObjectAllocationFailure Status = -4
	OutOfResources             Status = -5
	OutOfHostMemory            Status = -6
	ProfilingInfoNotAvailable  Status = -7
	MemCopyOverlap             Status = -8
	ImageFormatMismatch        Status = -9
	BuildProgramFailure        Status = -11
	MapFailure                 Status = -12
	MisalignedSubBufferOffset  Status = -13
	ExecStatusErrorInWaitList  Status = -14
	InvalidValue               Status = -30
	InvalidDevice              Status = -33
	InvalidContext             Status = -34
	InvalidQueueProperties     Status = -35
	InvalidCommandQueue        Status = -36
	InvalidHostPtr             Status = -37
	InvalidMemObject           Status = -38
	InvalidProgram             Status = -44
	InvalidProgramExecutable   Status = -45
	InvalidKernelName          Status = -46
	InvalidKernelDefinition    Status = -47
	InvalidKernel              Status = -48
	InvalidArgIndex            Status = -49
	InvalidArgValue            Status = -50
	InvalidArgSize             Status = -51
	InvalidKernelArgs          Status = -52
	InvalidWorkDimension       Status = -53
	InvalidWorkGroupSize       Status = -54
	InvalidWorkItemSize        Status = -55
	InvalidGlobalOffset        Status = -56
	InvalidEventWaitList       Status = -57
	InvalidEvent               Status = -58
	InvalidOperation           Status = -59
	InvalidBufferSize          Status = -61
	InvalidGlobalWorkSize      Status = -63
)

// sentinel is an error value with an OpenCL status of its own.
type sentinel struct {
	text   string
	status Status
}

func (s *sentinel) Error() string  { return s.text }
func (s *sentinel) Status() Status { return s.status }

// Sentinel makes an error value for errors.Is that StatusOf maps to st.
// Packages declare theirs with it, once, at package level.
func Sentinel(text string, st Status) error { return &sentinel{text, st} }

// StatusOf maps an error to its OpenCL status: Success for nil, the status of
// the first error in the chain that has one, OutOfResources for any other.
func StatusOf(err error) Status {
	if err == nil {
		return Success
	}
	var s interface{ Status() Status }
	if errors.As(err, &s) {
		return s.Status()
	}
	return OutOfResources
}

// Sentinels shared by several packages. Callers get them wrapped with the
// offending value and the rule it broke.
var (
	ErrInvalidValue     = Sentinel("invalid value", InvalidValue)
	ErrInvalidSize      = Sentinel("invalid buffer size", InvalidBufferSize)
	ErrInvalidBuffer    = Sentinel("invalid memory object", InvalidMemObject)
	ErrInvalidContext   = Sentinel("invalid context", InvalidContext)
	ErrInvalidQueue     = Sentinel("invalid command queue", InvalidCommandQueue)
	ErrInvalidEvent     = Sentinel("invalid event", InvalidEvent)
	ErrInvalidWaitList  = Sentinel("invalid event wait list", InvalidEventWaitList)
	ErrInvalidOperation = Sentinel("invalid operation", InvalidOperation)
	ErrInvalidHostPtr   = Sentinel("invalid host pointer", InvalidHostPtr)
	ErrInvalidDevice    = Sentinel("invalid device", InvalidDevice)
	ErrDeviceNotFound   = Sentinel("device not found", DeviceNotFound)
	ErrDeviceLost       = Sentinel("device not available", DeviceNotAvailable)
	ErrOverlap          = Sentinel("source and destination overlap", MemCopyOverlap)
	ErrMisaligned       = Sentinel("misaligned sub-buffer origin", MisalignedSubBufferOffset)

	// ErrNoMemory: a memory cannot hold what was asked for.
	ErrNoMemory = Sentinel("out of device memory", MemObjectAllocationFailure)
	// ErrNoHostMemory: the host cannot hold what was asked for.
	ErrNoHostMemory = Sentinel("out of host memory", OutOfHostMemory)
	// ErrNoResources: a limit other than buffer memory was reached, such as a
	// device's local memory.
	ErrNoResources = Sentinel("out of resources", OutOfResources)
	// ErrFault: a command did what its device does not allow, such as a kernel
	// that reads outside its memory. Only the command fails.
	ErrFault = Sentinel("kernel fault", OutOfResources)
	// ErrPoisoned: the bytes were last written by a command that failed.
	ErrPoisoned = Sentinel("content lost by a failed command", ExecStatusErrorInWaitList)
	// ErrDependency: an event in a wait list, or one that produced the data,
	// failed.
	ErrDependency = Sentinel("a command waited for has failed", ExecStatusErrorInWaitList)

	ErrBuild         = Sentinel("program build failed", BuildProgramFailure)
	ErrInvalidKernel = Sentinel("invalid kernel", InvalidKernel)
	ErrKernelName    = Sentinel("no such kernel", InvalidKernelName)
	ErrKernelDiffers = Sentinel("a kernel differs from device to device", InvalidKernelDefinition)
	ErrKernelArgs    = Sentinel("invalid kernel arguments", InvalidKernelArgs)
	ErrArgIndex      = Sentinel("invalid argument index", InvalidArgIndex)
	ErrArgSize       = Sentinel("invalid argument size", InvalidArgSize)
	ErrArgValue      = Sentinel("invalid argument value", InvalidArgValue)
	ErrWorkGroupSize = Sentinel("invalid work-group size", InvalidWorkGroupSize)
	ErrWorkItemSize  = Sentinel("invalid work-item size", InvalidWorkItemSize)
	ErrGlobalSize    = Sentinel("invalid global work size", InvalidGlobalWorkSize)
	ErrGlobalOffset  = Sentinel("invalid global offset", InvalidGlobalOffset)
	ErrWorkDimension = Sentinel("invalid work dimension", InvalidWorkDimension)
	// ErrClosed: the object was closed or released before this call.
	ErrClosed = Sentinel("already closed", InvalidOperation)
)
