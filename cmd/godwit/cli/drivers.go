package cli

// The drivers that every godwit has.
import (
	_ "godwit/devices/cpu"
	_ "godwit/devices/null"
	_ "godwit/devices/opencl"
	_ "godwit/devices/tce"
)
