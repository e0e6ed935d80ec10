package ocl

// Counts are objects of each kind, by OpenCL's names.
type Counts struct {
	Contexts, Queues, Buffers, Programs, Kernels, Events, Samplers int64
}
