//go:build linux

package icd_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/icd/tracelog"
)

// round is what testdata/handaround.c prints.
type round struct {
	Platform string  `json:"platform"`
	Devices  int     `json:"devices"`
	Bytes    uint64  `json:"bytes"`
	Rounds   int     `json:"rounds"`
	Warm     int     `json:"warm"`
	Each     float64 `json:"us_per_handover"`
	Staying  float64 `json:"us_per_launch_staying"`
	Verified bool    `json:"verified"`
}

// leastHanded is how many bytes have to move for handaround: those that a launch
// reads and its device does not hold. Quarters of the buffer are its unit.
func leastHanded(size uint64, devices, rounds, warm int, parts bool) (bytes uint64) {
	const host = -1
	at := [4]int{host, host, host, host} // who holds a quarter: its last writer alone
	turn := 0
	launch := func(device int) {
		from, to := 0, 4
		if parts {
			from, to = turn%3, turn%3+2
		}
		turn++
		for q := from; q < to; q++ {
			if at[q] != device {
				bytes += size / 4
				at[q] = device
			}
		}
	}
	for r := range warm {
		launch(r % devices)
	}
	for r := range rounds {
		launch(r % devices)
	}
	for range 1 + rounds {
		launch(0)
	}
	for q := range at { // the read, on device 0
		if at[q] != 0 {
			bytes += size / 4
		}
	}
	return bytes
}

func TestABufferHandedAroundMovesNoMoreThanItMust(t *testing.T) {
	prog := compile(t, "handaround")
	const size, rounds = 1 << 20, 12
	for _, n := range []int{1, 2, 3, 8} {
		for _, how := range []string{"whole", "parts"} {
			t.Run(fmt.Sprintf("%s around %d", how, n), func(t *testing.T) {
				out, sum := on(n).summed(t, time.Minute, prog,
					strconv.Itoa(size), strconv.Itoa(n), strconv.Itoa(rounds), "Godwit", how)
				var got round
				require.NoError(t, json.Unmarshal([]byte(out), &got), "%s", out)
				require.Equal(t, "Godwit", got.Platform)
				require.True(t, got.Verified)
				least := leastHanded(size, n, rounds, got.Warm, how == "parts")
				require.EqualValues(t, least, sum.BytesMoved, "%+v", sum)
				require.EqualValues(t, least, sum.LowerBound, "the log's own account")
				require.EqualValues(t, got.Warm+rounds+1+rounds, sum.Launches)
				require.Zero(t, sum.Failed+sum.Refused)
				requireMoved(t, sum)
			})
		}
	}
}

// Kernels fill the destination, the source and both while eight buffers are migrated.
func TestMigrationsBesideKernelsArriveAndMoveNoMoreThanTheyMust(t *testing.T) {
	const mib, turns = 1, 1
	out, sum := on(2).summed(t, time.Minute, compile(t, "beside"), "Godwit", strconv.Itoa(mib), "4", strconv.Itoa(turns))
	require.Regexp(t, `(?m)^OK$`, out)
	times := 3 + 2*3*turns*2 // to warm up; two kernels, three places, alone and beside
	require.EqualValues(t, times*8*mib<<20, sum.BytesMoved, "%+v", sum)
	require.EqualValues(t, sum.BytesMoved, sum.LowerBound)
	require.Zero(t, sum.Failed+sum.Refused)
}

// requireMoved wants the parts of a summary to add up to its whole.
func requireMoved(t *testing.T, s tracelog.Summary) {
	t.Helper()
	var links, buffers uint64
	for _, l := range s.Links {
		links += l.Bytes
	}
	for _, b := range s.Buffers {
		buffers += b.BytesMoved
	}
	require.Equal(t, s.BytesMoved, links)
	require.Equal(t, s.BytesMoved, buffers)
}
