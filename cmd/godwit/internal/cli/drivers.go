package cli

import (
	// The drivers that every godwit has.
	_ "godwit/devices/cpu"
	_ "godwit/devices/null"
	_ "godwit/devices/opencl"
	_ "godwit/devices/tce"
)
