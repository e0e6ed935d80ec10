package main

// The drivers this program has.
import (
	_ "godwit/devices/cpu"
	_ "godwit/devices/null"
	_ "godwit/devices/opencl"
	_ "godwit/devices/tce"
)
