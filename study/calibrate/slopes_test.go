package calibrate

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Where they go backwards all the same, the runs that were disturbed least tell it, by half.
func TestRunsThatWereDisturbedLeastTellAShape(t *testing.T) {
	n := 0
	s := &shape{name: "noisy", few: 1, many: 3, open: func(*bench) (func(int) (float64, error), error) {
		return func(units int) (float64, error) {
			if n++; units == 1 && n > 3 {
				return 500, nil
			}
			return float64(10 * units), nil
		}, nil
	}}
	got, err := (&bench{ctx: t.Context()}).slopes(s, func(all []float64) bool { return len(all) < 9 })
	require.NoError(t, err)
	require.Equal(t, figure{10, 5, 3}, figureOf(got))
}

// A shape whose longer runs take less is measured again, though its time is up, and only so often.
func TestAShapeThatGoesBackwardsIsMeasuredAgain(t *testing.T) {
	for _, c := range []struct{ bad, most, want int }{{0, 0, 1}, {1, 0, 3}, {3, 0, 7}, {1000, 0, most / 2}, {1000, 5, 5}} {
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
