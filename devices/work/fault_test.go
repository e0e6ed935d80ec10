package work_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/devices/work"
	"godwit/mem"
)

func TestAFaultNamesWhatIsKnownOfIt(t *testing.T) {
	at := work.Fault{Kernel: "k", Arg: -1, Group: [3]int{1}, Item: [3]int{65}}
	for _, tc := range []struct {
		text  string
		fault func(*work.Fault)
	}{
		{"kernel k: panic, work-item [65 0 0] of group [1 0 0]: index out of range", func(f *work.Fault) {
			f.Kind, f.Detail = work.Crashed, "index out of range"
		}},
		{"kernel k: broken promise, argument 2 (c)", func(f *work.Fault) { f.Kind, f.Arg, f.Name = work.BrokenPromise, 2, "c" }},
		{"kernel k: broken promise: store of 4 bytes at address 0x10, work-item [65 0 0] of group [1 0 0]", func(f *work.Fault) {
			f.Kind, f.Size, f.Addr, f.Write = work.BrokenPromise, 4, 16, true
		}},
	} {
		f := at
		tc.fault(&f)
		require.EqualError(t, &f, tc.text)
		require.ErrorIs(t, &f, mem.ErrFault)
	}
}
