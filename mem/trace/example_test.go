package trace_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"

	"godwit/mem"
	"godwit/mem/trace"
)

// What a context tells goes to several sinks; one of them writes a file that replays.
func ExampleTee() {
	var file bytes.Buffer
	w := trace.NewCommandWriter(&file, "")
	var record trace.Recorder
	sink := trace.Tee(&record, nil, w.Context([]trace.CommandMemory{{Name: "host"}, {Name: "gpu"}}, 0))
	sink.Buffer(&trace.BufferRecord{Buffer: 1, Name: "a", Size: 64})
	sink.Command(&trace.CommandRecord{Op: "fill", Memory: 1,
		Accesses:  []mem.Access{{Buffer: 1, Range: mem.Range{End: 64}, Mode: mem.Write, Memory: 1}},
		Stored:    []trace.StoredRecord{{Buffer: 1, Memory: 1, Range: mem.Range{End: 64}}},
		Evictions: []trace.EvictionRecord{{Buffer: 2, Memory: 1, Policy: trace.ByRegrow}}})
	fmt.Println(len(record.Commands()), w.Err(), trace.IsCommands(bufio.NewReader(bytes.NewReader(file.Bytes()))))
	read, err := trace.ReadCommands(context.Background(), &file, "file")
	fmt.Println(len(read[0].Steps), err)
	// Output:
	// 1 <nil> true
	// 2 <nil>
}

// A program's log has each command and the copies that it caused.
func ExampleLog() {
	plain := slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}
	log := trace.NewLog(slog.New(slog.NewTextHandler(os.Stdout, &plain)), trace.NoEnds)
	log.Buffer(&trace.BufferRecord{Buffer: 1, Name: "a", Size: 64})
	// Output:
	// level=DEBUG msg="buffer created" buffer=1 name=a bytes=64
}

// Who enqueues does not wait for a slow sink: what comes faster than it writes is dropped beyond 1,000 records, and counted.
func ExampleAsync() {
	var record trace.Recorder
	sink := trace.NewAsync(&record, 1000)
	sink.Command(&trace.CommandRecord{Op: "fill", Memory: 1})
	sink.Close()
	fmt.Println(len(record.Commands()), "recorded,", sink.Dropped(), "dropped")
	// Output:
	// 1 recorded, 0 dropped
}

// A trace of allocations is lines of text.
func ExampleAppendAlloc() {
	text := []byte(trace.AllocHeader + "\n")
	text = trace.AppendAlloc(text, trace.OpAlloc, 7, 4096, 0)
	text = trace.AppendAlloc(text, trace.OpFree, 7, 4096, 12)
	fmt.Print(string(text))
	// Output:
	// op,id,bytes,time_us
	// a,7,4096,0
	// f,7,4096,12
}
