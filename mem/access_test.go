package mem_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

func TestABufferIsNamedByItsNumberAndItsGeneration(t *testing.T) {
	for id, want := range map[mem.BufferID]string{7: "7", 1<<32 | 7: "7", 3<<32 | 7: "7.3"} {
		require.Equal(t, want, id.String())
	}
}
