package machine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/virtual"
	"godwit/runtime"
	"godwit/study/machine"
)

// TestNothingIsMeasuredInVirtualTime: a context that leaves links between devices unused has
// the machine's figures for rings, and its clock begins at 0.
func TestNothingIsMeasuredInVirtualTime(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"h200x2-pcie", "gpux4-switch", "h200x4-nvlink"} {
		for _, noPeer := range []bool{false, true} {
			m, err := machine.Named(name, machine.Options{})
			require.NoError(t, err)
			w, err := virtual.New(m, virtual.Options{Stamps: true})
			require.NoError(t, err)
			c, err := runtime.NewContext(runtime.Options{Devices: w.Devices(), OwnDevices: true, Executor: w, Host: w.Host(), NoPeer: noPeer})
			require.NoError(t, err)
			require.Zero(t, w.Time(), "%s, no peer %v", name, noPeer)
			require.Zero(t, w.Counts(), "%s, no peer %v", name, noPeer)
			l := c.Topology().Link(1, 2)
			require.Equal(t, !noPeer && name != "h200x2-pcie", l.Direct.There, name)
			if !l.Direct.There {
				require.Equal(t, m.Link(1, 2).Ring, l.Ring, name)
			}
			require.NoError(t, c.Close(ctx))
		}
	}
}
