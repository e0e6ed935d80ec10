package trace_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/internal/input"
	"godwit/mem"
	"godwit/mem/trace"
)

const commandHeader = `{"godwit":"commands","version":1}
{"context":"1","memories":[{"name":"host"},{"name":"gpu","capacity":4096}]}
{"context":"1","create":{"id":7,"name":"a","size":1024,"content":true}}
`

func readCommandText(t testing.TB, text string) ([]*trace.CommandTrace, error) {
	return trace.ReadCommands(t.Context(), strings.NewReader(text), "file")
}

func TestCommandTracesAreReadAsTheyWereWritten(t *testing.T) {
	var out bytes.Buffer
	w := trace.NewCommandWriter(&out, "12.")
	memories := []trace.CommandMemory{{Name: "host"}, {Name: "gpu", Capacity: 1 << 20}}
	first, second := w.Context(memories, 0), w.Context(memories, 5)
	first.Buffer(&trace.BufferRecord{Buffer: 1, Name: "a", Size: 1 << 20, Version: 3})
	second.Buffer(&trace.BufferRecord{Buffer: 1, Size: 64})
	access := mem.Access{Buffer: 1, Range: mem.Range{Start: 64, End: 128}, Mode: mem.Write, Memory: 1}
	first.Command(&trace.CommandRecord{Op: "launch", Kernel: "k", Memory: 1, Accesses: []mem.Access{access},
		Stored: []trace.StoredRecord{{Buffer: 1, Memory: 1, Range: mem.Range{End: 256}}},
		Steps:  []trace.StepRecord{{Buffer: 1, To: 1, Range: mem.Range{Start: 64, End: 128}, Late: true, Count: 2}}})
	first.Command(&trace.CommandRecord{Op: "write", Memory: 1, Accesses: []mem.Access{access}, Err: mem.ErrNoMemory})
	first.Command(&trace.CommandRecord{Op: "marker", Memory: 1})
	first.Buffer(&trace.BufferRecord{Buffer: 1, Released: true})
	require.NoError(t, w.Err())

	read, err := readCommandText(t, out.String())
	require.NoError(t, err)
	require.Equal(t, []*trace.CommandTrace{{Name: "12.1", Memories: memories, Steps: []trace.CommandStep{
		{Create: &trace.CommandBuffer{1, "a", 1 << 20, true, "", false}},
		{Command: &trace.CommandUses{"launch", "k", 1, []trace.CommandUse{{1, 1, [2]uint64{64, 128}, "write", &[2]uint64{0, 256}}}, true}},
		{Release: 1},
	}}}, read, "a context that has enqueued nothing is left out, and so is what was refused")
	require.Equal(t, 1, read[0].Counted())
	use := &read[0].Steps[1].Command.Uses[0]
	require.Equal(t, access, use.Access())
	require.Equal(t, mem.Range{End: 256}, use.Reach())

	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(out.Bytes())
	require.NoError(t, err)
	require.NoError(t, z.Close())
	path := filepath.Join(t.TempDir(), "p.commands.gz")
	require.NoError(t, os.WriteFile(path, packed.Bytes(), 0o600))
	again, err := trace.OpenCommands(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, read, again)
}

func TestWhatIsWrongWithACommandTrace(t *testing.T) {
	use := `{"context":"1","command":{"op":"launch","queue":1,"uses":[{"buffer":7,"memory":1,"range":[0,1024],"mode":"read"}]}}` + "\n"
	for _, c := range []struct{ line, want string }{
		{`{"context":"2","release":7}`, `file:4: context "2": its memories have not been said`},
		{`{"context":"1","memories":[{"name":"host"},{"name":"x"}]}`, `context "1" began before`},
		{`{"context":"3","memories":[{"name":"host"}]}`, "want the host's and those of 1 to 1024 devices"},
		{`{"context":"1","create":{"id":7,"size":1}}`, "the number is 0, or there is one already"},
		{`{"context":"1","create":{"id":8,"size":0}}`, "want 1 to 2^48"},
		{`{"context":"1","release":9}`, "release of buffer 9: there is none"},
		{`{"context":"1"}`, "want one of tenant, create, release and command"},
		{`{"context":"1","release":7,"create":{"id":8,"size":1}}`, "want one of tenant, create, release and command"},
		{`{"context":"1","weight":3}`, `unknown field "weight"`},
		{`{"godwit":"commands","version":2}`, "version 2: want"},
		{strings.Replace(use, `"queue":1`, `"queue":2`, 1), "queue: memory 2 of 2"},
		{strings.Replace(use, `"memory":1`, `"memory":2`, 1), "memory 2 of 2"},
		{strings.Replace(use, `"buffer":7`, `"buffer":6`, 1), "buffer 6: there is none"},
		{strings.Replace(use, `1024]`, `1025]`, 1), "bytes 0 to 1025 of buffer 7, which has 1024"},
		{strings.Replace(use, `[0,`, `[1024,`, 1), "bytes 1024 to 1024"},
		{strings.Replace(use, `"read"`, `"reads"`, 1), "want read, write or both"},
		{strings.Replace(use, `"mode"`, `"stored":[1,1024],"mode"`, 1), "stored: bytes 1 to 1024"},
		{`{"context":"1","command":{"op":"launch","queue":1,"uses":[]}}`, "it uses nothing"},
		{`{"context":"1","crea`, "file:4: "},
	} {
		_, err := readCommandText(t, commandHeader+c.line+"\n"+use)
		require.ErrorIs(t, err, input.ErrMalformed, c.line)
		require.ErrorContains(t, err, c.want)
	}
	_, err := readCommandText(t, "op,id,bytes,time_us\n")
	require.ErrorIs(t, err, trace.ErrNotCommands)

	read, err := readCommandText(t, commandHeader+use+`{"context":"1","release":`)
	require.NoError(t, err, "a program that died leaves half a line")
	require.Len(t, read[0].Steps, 2)
	require.True(t, read[0].Cut)
	read, err = readCommandText(t, commandHeader+use)
	require.NoError(t, err)
	require.False(t, read[0].Cut)
}

func TestATeePassesOn(t *testing.T) {
	require.Nil(t, trace.Tee())
	require.Nil(t, trace.Tee(nil, nil))
	a, b := new(trace.Recorder), new(trace.Recorder)
	require.Same(t, a, trace.Tee(nil, a))
	all := trace.Tee(a, b)
	require.Equal(t, trace.AllEnds, all.Ends())
	record := trace.NewCommandWriter(io.Discard, "").Context(nil, 0)
	require.Equal(t, trace.NoEnds, record.Ends())
	require.Equal(t, trace.AllEnds, trace.Tee(record, a).Ends())
	all.Buffer(&trace.BufferRecord{Buffer: 1})
	all.Command(&trace.CommandRecord{ID: 1})
	all.Completed(&trace.CompletionRecord{Command: 1})
	for _, r := range []*trace.Recorder{a, b} {
		require.Len(t, r.Buffers(), 1)
		require.Len(t, r.Commands(), 1)
		require.Len(t, r.Completions(), 1)
	}
}

// FuzzCommands: whatever the file is, it is refused, or what is read holds together.
func FuzzCommands(f *testing.F) {
	f.Add(commandHeader + `{"context":"1","command":{"op":"launch","kernel":"k","queue":1,"uses":[{"buffer":7,"memory":1,"range":[0,1024],"mode":"read","stored":[0,1024]}]}}` + "\n")
	f.Add(commandHeader + `{"context":"1","release":7}` + "\n" + `{"context":`)
	f.Add(`{"godwit":"commands"`)
	f.Fuzz(func(t *testing.T, text string) {
		read, err := readCommandText(t, text)
		if err != nil {
			return
		}
		for _, c := range read {
			require.GreaterOrEqual(t, len(c.Memories), 2)
			sizes := make(map[mem.BufferID]uint64)
			for _, s := range c.Steps {
				switch {
				case s.Create != nil:
					sizes[s.Create.ID] = s.Create.Size
				case s.Release != 0:
					require.Contains(t, sizes, s.Release)
					delete(sizes, s.Release)
				default:
					for i := range s.Command.Uses {
						u := &s.Command.Uses[i]
						require.True(t, mem.Range{End: sizes[u.Buffer]}.Contains(u.Reach()))
						require.True(t, u.Reach().Contains(u.Access().Range))
						require.False(t, u.Access().Range.Empty())
					}
				}
			}
		}
	})
}
