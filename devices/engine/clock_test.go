package engine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/engine"
)

// skewed is a device's clock: off by minutes, and ppm too fast. The host's is counted by hand.
type skewed struct {
	host     uint64
	off, ppm int64
	r        *rand.Rand
}

func (s *skewed) show(host uint64) uint64 {
	return host + uint64(s.off+int64(host)*s.ppm/1_000_000)
}

// read takes 3 to 400 us, and shows the time at any moment of that.
func (s *skewed) read() (engine.Reading, bool) {
	r := engine.Reading{Before: s.host}
	trip := 3000 + s.r.Uint64N(400_000)>>s.r.UintN(8)
	r.Device, r.After = s.show(s.host+s.r.Uint64N(trip)), s.host+trip
	s.host = r.After
	return r, true
}

const minute, second = 60_000_000_000, 1_000_000_000

// TestTimesOfAClockThatIsMinutesOffAndDrifts asks for times of two hours, at their moments and long after them: none is
// farther off than its error says, either way, and their order is kept.
func TestTimesOfAClockThatIsMinutesOffAndDrifts(t *testing.T) {
	for seed := range uint64(20) {
		s := &skewed{host: second, off: 7 * minute * (1 - 2*int64(seed%2)), ppm: 50 - 25*int64(seed%5), r: rand.New(rand.NewPCG(seed, 1))}
		s.host += 10 * minute // so that the device's clock is above 0
		c := engine.NewClock(s.read)
		var asked []uint64
		check := func(host uint64) devices.Times {
			real := devices.Times{Queued: host - 1000, Submitted: host - 900, Started: host - 500, Ended: host}
			raw := devices.Times{Queued: s.show(real.Queued), Submitted: s.show(real.Submitted), Started: s.show(real.Started), Ended: s.show(real.Ended)}
			got, ok := c.On(raw, devices.DeviceClock, true)
			require.True(t, ok)
			near := func(got, want, off uint64) {
				require.LessOrEqual(t, max(got, want)-min(got, want), off+1, "seed %d, %d", seed, host)
			}
			near(got.Started, real.Started, got.Error)
			near(got.Ended, real.Ended, got.Error)
			require.Less(t, got.Error, uint64(second/50), "an hour between two readings at 10 ppm, and a round trip")
			require.LessOrEqual(t, got.Queued, got.Submitted)
			require.LessOrEqual(t, got.Started, got.Ended)
			back, _ := c.On(got, devices.HostClock, true)
			near(back.Ended, raw.Ended, back.Error)
			return got
		}
		for range 2000 {
			s.host += s.r.Uint64N(7 * second)
			asked = append(asked, s.host)
			if s.r.UintN(3) == 0 {
				check(s.host)
			}
		}
		last := devices.Times{}
		for _, host := range asked {
			now := check(host)
			require.LessOrEqual(t, last.Ended, now.Queued+1000, "times are in order")
			last = now
		}
	}
}

// TestAClockIsReadWhenSomebodyAsks counts readings: none while nobody asks for times after the last one.
func TestAClockIsReadWhenSomebodyAsks(t *testing.T) {
	s, n := &skewed{host: second, r: rand.New(rand.NewPCG(1, 1))}, 0
	c := engine.NewClock(func() (engine.Reading, bool) { n++; return s.read() })
	first := n
	for i := range uint64(1000) {
		_, ok := c.On(devices.Times{Ended: s.host + i}, devices.DeviceClock, true)
		require.True(t, ok)
	}
	require.Equal(t, first, n)
	later := devices.Times{Ended: s.host + second}
	_, ok := c.On(later, devices.DeviceClock, false)
	require.True(t, ok)
	require.Equal(t, first, n, "it was not to read")
	s.host += second
	_, ok = c.On(later, devices.DeviceClock, true)
	require.True(t, ok)
	require.Equal(t, 2*first, n)
	none := engine.NewClock(func() (engine.Reading, bool) { return engine.Reading{}, false })
	_, ok = none.On(later, devices.DeviceClock, true)
	require.False(t, ok)
}
