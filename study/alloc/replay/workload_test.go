package replay

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/mem"
)

// The hashes are of what the reference generator, in C, prints.
func TestWorkloadsAreTheReferenceStreamsByteForByte(t *testing.T) {
	w1 := func(n, pairs, warm int, seed uint64) func() (*Stream, error) {
		return func() (*Stream, error) { return W1(n, pairs, warm, seed) }
	}
	w2 := func(k w2Kind, groups int, seed uint64) func() (*Stream, error) {
		return func() (*Stream, error) { return W2(k, groups, seed) }
	}
	for _, c := range []struct {
		name string
		make func() (*Stream, error)
		hash string
		soak bool
	}{
		{"w1 1000 20000 1000 1", w1(1000, 20000, 1000, 1), "017a0378e7e2d8825914873cff1d1529bc5a2c3a8fe5a23a0df462764b9900de", false},
		{"w1 1 10 3 0", w1(1, 10, 3, 0), "19a7abcedebc9973e9ac19b0b1fbd30977677ab0c8d51970b1a08254fe3c4fd1", false},
		{"w2fifo 3000 1", w2(w2FIFO, 3000, 1), "a7b4f6bd5bf3ac117148be2aa04ef42afdf0b12ac040ce6430edf1cd72f03176", false},
		{"w2lifo 3000 2", w2(w2LIFO, 3000, 2), "b0e67783f7ed3cb6f2d95a2b1fe51d61c741b7687b10354d2eea1d3a615fa7f2", false},
		{"w2mix 3000 3", w2(W2Mix, 3000, 3), "48d0b4f27031268087ed1c6d64d38d1f7b3cd8fca045e238459cf4aacc1be47d", false},
		{"w1 100000 1000000 0 7", w1(100000, 1000000, 0, 7), "19b5237a5e6639ee6e59c4d897a31a23a08398dba3ae2ff117ec91716885f527", true},
		{"w2mix 200000 4", w2(W2Mix, 200000, 4), "c8fd42aa3781a139ae48a25431f3dcacc52504c1c0dfab1e63bc9f17e654b5d9", true},
		{"w1 100000 10000000 0 9", w1(100000, 10000000, 0, 9), "00883db51157f1e7d703cda40e0594f123ace40bfe688d7bef1d65ee01d80a68", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.soak && os.Getenv("GODWIT_SOAK") == "" {
				t.Skip("a long stream; set GODWIT_SOAK=1")
			}
			st, err := c.make()
			require.NoError(t, err)
			h := sha256.New()
			fmt.Fprintf(h, "# align=%d warm_events=%d\n", st.Align, st.Warm)
			for _, op := range st.Ops {
				if op.Size == 0 {
					fmt.Fprintf(h, "f %d\n", op.Slot)
				} else {
					fmt.Fprintf(h, "a %d %d\n", op.Slot, op.Size)
				}
			}
			assert.Equal(t, c.hash, hex.EncodeToString(h.Sum(nil)))
		})
	}
}

func TestWorkloadArguments(t *testing.T) {
	_, err := W1(0, 1, 1, 1)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = W1(1, -1, 1, 1)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = W2("other", 1, 1)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = W2(W2Mix, -1, 1)
	require.ErrorIs(t, err, mem.ErrInvalidValue)
	_, err = W2(W2Mix, 0, 1)
	require.ErrorIs(t, err, mem.ErrInvalidValue, "nothing is allocated in it")
}
