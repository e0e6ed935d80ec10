// Package formats reads and writes allocation traces: which chunk was allocated and
// freed when. An [Allocs] is the form in memory; [ReadAllocs] and [OpenAllocs] read five
// formats, told apart by their content, and the Write methods write them:
//
//   - Godwit's CSV, `op,id,bytes,time_us` (plain or gzip), which a trace.AllocWriter
//     records;
//   - MiniMalloc's CSV, `id,lower,upper,size`;
//   - RMM's log, `Thread,Time,Action,Pointer,Size,Stream`;
//   - PyTorch's memory snapshot (torch.cuda.memory._snapshot), the pickle that
//     torch.cuda.memory._dump_snapshot writes, or JSON;
//   - VMA's statistics (vmaBuildStatsString, vmaBuildVirtualBlockStatsString),
//     which show a state and no history: read only.
//
// [Allocs.Cut] and [Merge] make traces of traces.
//
// The package decides nothing: strategies are measured on traces by study/alloc/replay.
package formats
