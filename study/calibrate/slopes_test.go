package calibrate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A shape whose longer runs take less is measured again, though its time is up, and only so often.
func TestAShapeThatGoesBackwardsIsMeasuredAgain(t *testing.T) {
	for _, c := range []struct{ bad, most, want int }{{0, 0, 1}, {1, 0, 2}, {3, 0, 6}, {1000, 0, most}, {1000, 5, 5}} {
		slopes := 0
		s := &shape{name: "noisy", few: 1, many: 3, most: c.most, open: func(*bench) (func(int) (float64, error), error) {
			return func(n int) (float64, error) {
				if n == 1 && slopes <= c.bad {
					return 50, nil
				}
				if n == 3 {
					slopes++
				}
				return float64(10 * n), nil
			}, nil
		}}
		m := &measuring{Options: Options{Time: time.Hour}, bench: &bench{ctx: t.Context()}, until: time.Now()}
		got, err := m.bench.slopes(s, m.again(1))
		require.NoError(t, err)
		require.Len(t, got, c.want, "%+v: %v", c, got)
	}
}
