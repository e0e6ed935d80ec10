// Package trace holds what happened, in forms that can be written, read back
// and replayed. Beside Go's runtime/trace it is imported as gwtrace.
//
// Its first part, in the files alloc_*.go, is allocation traces: which chunk
// was allocated and freed when. An [Allocs] is the form in memory; [ReadAllocs]
// and [OpenAllocs] read five formats, told apart by their content, and the
// Write methods write them:
//
//   - Godwit's CSV, `op,id,bytes,time_us` (plain or gzip);
//   - MiniMalloc's CSV, `id,lower,upper,size`;
//   - RMM's log, `Thread,Time,Action,Pointer,Size,Stream`;
//   - PyTorch's memory snapshot (torch.cuda.memory._snapshot), the pickle that
//     torch.cuda.memory._dump_snapshot writes, or JSON;
//   - VMA's statistics (vmaBuildStatsString, vmaBuildVirtualBlockStatsString),
//     which show a state and no history: read only.
//
// [Allocs.Cut] and [Merge] make traces of traces.
//
// An [AllocWriter] records a running program in Godwit's CSV.
//
// Its second part, in the files record*.go and commands*.go, is what runtime contexts do:
// a [CommandSink] is told of it, a [Recorder] keeps it, a [CommandWriter] writes down what
// commands access, and [OpenCommands] reads that back, for package replay.
//
// The package imports nothing of the project but mem, and decides nothing:
// strategies are measured on traces by bufalloc/replay.
package trace
