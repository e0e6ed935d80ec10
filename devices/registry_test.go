package devices

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/mem"
)

func TestWhatIsNotThereIsToldWithWhatIs(t *testing.T) {
	err := NoKernel("fil", "p", []string{"fill", "scale"})
	require.ErrorIs(t, err, mem.ErrKernelName)
	require.ErrorContains(t, err, `kernel "fil": program p has fill, scale; did you mean "fill"?`)
	err = noDriver("cup", []string{"cpu", "tce"})
	require.ErrorIs(t, err, mem.ErrDeviceNotFound)
	require.ErrorContains(t, err, `driver "cup": there are cpu, tce; did you mean "cpu"?`)
	err = noDriver("opencl", []string{"cpu", "tce"})
	require.EqualError(t, err, `driver "opencl": there are cpu, tce; others are there when the program imports them: device not found`)
	require.ErrorContains(t, noDriver("cpu", nil), `import _ "godwit/devices/cpu"`)
}
