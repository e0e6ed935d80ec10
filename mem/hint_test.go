package mem_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"godwit/mem"
)

func TestHints(t *testing.T) {
	var none mem.Hint
	_, ok := none.Ops()
	assert.False(t, ok)
	_, ok = none.Class()
	assert.False(t, ok)
	for _, n := range []uint64{0, 1, 1 << 30} {
		got, ok := mem.Lives(n).Ops()
		assert.True(t, ok)
		assert.Equal(t, n, got)
		_, ok = mem.Lives(n).Class()
		assert.False(t, ok)
	}
	assert.Equal(t, mem.Kept, mem.Lives(math.MaxUint64), "the longest life")
	for _, c := range []uint32{0, 7, math.MaxUint32} {
		got, ok := mem.Together(c).Class()
		assert.True(t, ok)
		assert.Equal(t, c, got)
	}
	assert.Equal(t, "class 7, 3 operations, no hint", mem.Together(7).String()+", "+mem.Lives(3).String()+", "+none.String())
}
