//go:build cgo

package opencl_test

import (
	"fmt"

	"godwit/devices/opencl"
)

// What a program's user writes is a selection; what it does not know is refused.
func ExampleParseSelection() {
	s, err := opencl.ParseSelection(map[string]string{"platform": "NVIDIA", "type": "gpu", "count": "2"})
	fmt.Println(s.Platform, s.Type, s.Count, err)
	_, err = opencl.ParseSelection(map[string]string{"plattform": "NVIDIA"})
	fmt.Println(err != nil)
	// Output:
	// NVIDIA gpu 2 <nil>
	// true
}
