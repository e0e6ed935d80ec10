package metamorphic

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestHistoriesOverSharedVirtualMemory has the buffers without first content lie
// over shared virtual memory, with maps, rectangles and sub-buffers of them, and
// uses pointers in every other operation that can.
func TestHistoriesOverSharedVirtualMemory(t *testing.T) {
	histories := 40
	if os.Getenv("GODWIT_SOAK") != "" {
		histories = 2000
	}
	all, moved := configs(), uint64(0)
	for i := range histories {
		cfg := all[i*37%len(all)]
		cfg.SVM = true
		h := Generate(uint64(7000+i), 100)
		res, err := Run(h, cfg)
		if err != nil {
			fail(t, h, cfg, err)
			return
		}
		moved += res.BytesMoved
	}
	require.Positive(t, moved)
}
