package pack_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/bufalloc/pack"
	"godwit/mem"
)

// A program records a run, packs it, and has the next one placed by it.
func ExampleRecorder() {
	steps := func(alloc func(id, size uint64), free func(id uint64)) {
		alloc(1, 300)
		alloc(2, 100)
		free(1)
		alloc(3, 400)
		free(2)
		free(3)
	}
	var rec pack.Recorder
	steps(func(id, size uint64) { rec.Alloc(id, size, 1) }, rec.Free)
	plan, packed, err := rec.Plan(context.Background(), pack.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("needs", plan.Height(), "bytes, the least:", packed.Proven)

	r, _ := bufalloc.NewRegion(0, plan.Height(), bufalloc.Options{Plan: plan})
	chunks := make(map[uint64]bufalloc.Chunk)
	steps(func(id, size uint64) {
		c, err := r.Alloc(size, 1)
		if err != nil {
			fmt.Println(err)
		}
		chunks[id] = c
	}, func(id uint64) { _ = r.Free(chunks[id]) })
	fmt.Println(r.Stats().Allocs, "chunks,", r.Stats().Failures, "refused")
	// Output:
	// needs 500 bytes, the least: true
	// 3 chunks, 0 refused
}

func TestReadPlan(t *testing.T) {
	const head = "id,lower,upper,size,offset\n"
	p, err := pack.ReadPlan(strings.NewReader(head + "b,3,5,100,28\na,0,4,28,0\n"))
	require.NoError(t, err)
	require.Equal(t, uint64(128), p.Height())
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"empty":             {"", mem.ErrInvalidValue},
		"another header":    {"id,lower,upper,size\n", mem.ErrInvalidValue},
		"a word":            {head + "a,0,4,many,0\n", mem.ErrInvalidValue},
		"a negative number": {head + "a,-1,4,8,0\n", mem.ErrInvalidValue},
		"short":             {head + "a,0,4,8\n", mem.ErrInvalidValue},
		"no life":           {head + "a,4,4,8,0\n", mem.ErrInvalidValue},
		"no size":           {head + "a,0,4,0,0\n", mem.ErrInvalidSize},
		"sharing bytes":     {head + "a,0,4,8,0\nb,3,5,8,7\n", pack.ErrOverlap},
		"past the end":      {head + "a,0,4,18446744073709551615,5\n", mem.ErrInvalidSize},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pack.ReadPlan(strings.NewReader(c.text))
			require.ErrorIs(t, err, c.want)
		})
	}
}
