package mem_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

func TestFormatBytes(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB",
		1<<20 + 1<<18: "1.25 MiB", 64 << 30: "64 GiB", 1000: "1000 B", 10000: "9.77 KiB", math.MaxUint64: "16 EiB",
	} {
		require.Equal(t, want, mem.FormatBytes(n))
	}
}
