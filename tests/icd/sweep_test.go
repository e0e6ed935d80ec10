//go:build linux

package icd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/eviction"
	"godwit/mem/trace"
	"godwit/study/replay"
)

// TestAProgramUsesMoreThanItsDeviceHolds: an unmodified program sweeps over twice the
// memory that it is given. Its words are right, and the summary says what that took.
func TestAProgramUsesMoreThanItsDeviceHolds(t *testing.T) {
	prog := compile(t, "sweep")
	const size, buffers, sweeps = 256 << 10, 16, 4
	for _, percent := range []int{50, 75} {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			devices := filepath.Join(t.TempDir(), "devices.yaml")
			memory := buffers * size * percent / 100
			require.NoError(t, os.WriteFile(devices, fmt.Appendf(nil, "devices: [{name: small, memory: %d}]\n", memory), 0o600))
			record := filepath.Join(t.TempDir(), "program.commands")
			_, sum := on(1).with("GODWIT_DEVICES="+devices, "GODWIT_RECORD="+record).summed(t, time.Minute, prog, fmt.Sprint(buffers), fmt.Sprint(size), fmt.Sprint(sweeps), "Godwit")
			require.Zero(t, sum.Failed+sum.Refused)
			require.Positive(t, sum.Evictions)
			require.LessOrEqual(t, sum.Devices[1].Peak, uint64(memory))
			require.Zero(t, sum.Compulsory, "there is one device, and the program reads from it")
			require.Equal(t, sum.Compulsory+sum.Capacity, sum.BytesMoved)
			require.Positive(t, sum.CapacityBound)
			require.LessOrEqual(t, sum.CapacityBound, sum.Capacity)
			require.Equal(t, sum.Compulsory+sum.CapacityBound, sum.LowerBound)
			t.Logf("%d%%: %d evictions, %d B since memory was short, %.2f of the bound", percent, sum.Evictions, sum.Capacity, float64(sum.Capacity)/float64(sum.CapacityBound))
			requireMoved(t, sum)

			recorded, err := trace.OpenCommands(t.Context(), record)
			require.NoError(t, err)
			require.Len(t, recorded, 1)
			for _, policy := range eviction.Policies()[:3] {
				again, err := replay.Run(t.Context(), recorded[0], replay.Options{Policy: policy, Capacity: []uint64{0, uint64(memory)}})
				require.NoError(t, err)
				require.Equal(t, sum.Commands, again.Commands)
				require.Equal(t, sum.Compulsory, again.Compulsory)
				require.Equal(t, sum.CapacityBound, again.CapacityBound)
				require.GreaterOrEqual(t, again.Capacity, again.CapacityBound)
				if policy == eviction.Belady {
					require.LessOrEqual(t, again.Capacity, sum.Capacity, "with the future known")
				}
			}
		})
	}
}

// TestContextsOfOneDeviceGiveEachOtherRoom: what one holds idle leaves for another's command, which needs most of the device.
func TestContextsOfOneDeviceGiveEachOtherRoom(t *testing.T) {
	devices := filepath.Join(t.TempDir(), "devices.yaml")
	require.NoError(t, os.WriteFile(devices, []byte("devices: [{name: small, memory: 2560 KiB}]\n"), 0o600))
	for _, n := range []string{"2", "4"} {
		out, sum := on(1).with("GODWIT_DEVICES="+devices).summed(t, time.Minute, compile(t, "contexts"), "Godwit", n)
		require.Regexp(t, `(?m)^OK$`, out)
		require.Zero(t, sum.Failed+sum.Refused)
		require.Positive(t, sum.Evictions)
	}
}

// TestABufferMayBeLargerThanADevice: it is stored by range, and used in parts.
func TestABufferMayBeLargerThanADevice(t *testing.T) {
	devices := filepath.Join(t.TempDir(), "devices.yaml")
	require.NoError(t, os.WriteFile(devices, []byte("devices: [{name: small, count: 2, memory: 1MiB}]\n"), 0o600))
	r := on(2).with("GODWIT_DEVICES="+devices).run(t, time.Minute, "", compile(t, "wide"), "Godwit")
	require.True(t, r.ok(), "%v", r)
	require.Regexp(t, `(?m)^OK$`, r.out)
}

// TestLentMemoryIsTheProgramsAgain: threads take memory back at the earliest moment that OpenCL
// allows, in eight ways, while blocks leave the devices.
func TestLentMemoryIsTheProgramsAgain(t *testing.T) {
	devices := filepath.Join(t.TempDir(), "devices.yaml")
	require.NoError(t, os.WriteFile(devices, []byte("devices: [{name: small, count: 2, memory: 200000 B}]\n"), 0o600))
	out, sum := on(2).with("GODWIT_DEVICES="+devices).summed(t, time.Minute, compile(t, "lent"), "Godwit")
	require.Regexp(t, `(?m)^OK$`, out)
	require.Positive(t, sum.Evictions)
}
