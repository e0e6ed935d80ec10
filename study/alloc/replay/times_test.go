package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestIntervalsLeaveOutWhatTheBinomialAllows(t *testing.T) {
	for n, out := range map[int]int{1: 0, 2: 0, 5: 0, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 20: 5, 100: 39, 1000: 468, 10_000: 4901} {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(n - 1 - i)
		}
		low, high := interval(v)
		assert.InDelta(t, out, low, 0, "%d values", n)
		assert.InDelta(t, n-1-out, high, 0, "%d values", n)
	}
}
