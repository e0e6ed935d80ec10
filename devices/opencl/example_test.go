//go:build cgo

package opencl_test

import (
	"context"
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

// Which GPUs bytes go between without the host's memory, and why not between others.
func ExamplePair() {
	found, err := opencl.Discover()
	if err != nil {
		fmt.Println(err)
		return
	}
	pairs, err := opencl.Pairs(context.Background())
	if err != nil {
		fmt.Println(err)
	}
	for _, p := range pairs {
		if p.Missing == nil {
			fmt.Println(found[p.From].Name, "to", found[p.To].Name, "over NVLink")
		} else {
			fmt.Println(found[p.From].Name, "to", found[p.To].Name, "by way of the host:", p.Missing)
		}
	}
}
