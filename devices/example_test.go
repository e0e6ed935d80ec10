package devices_test

import (
	"context"
	"errors"
	"fmt"

	"godwit/devices"
	_ "godwit/devices/cpu"
	_ "godwit/devices/tce"
	"godwit/mem"
)

// A driver is imported for its name, as with database/sql, and opened by it.
func ExampleOpen() {
	ctx := context.Background()
	devs, err := devices.Open(ctx, "tce", devices.Config{Name: "sim", Memory: 1 << 20})
	fmt.Println(len(devs), err)
	info := devs[0].Info()
	fmt.Println(info.Name, info.Type, info.GlobalMemory)
	fmt.Println(devs[0].Close())

	_, err = devices.Open(ctx, "tec", devices.Config{})
	fmt.Println(errors.Is(err, mem.ErrDeviceNotFound))
	// Output:
	// 1 <nil>
	// sim accelerator 1048576
	// <nil>
	// true
}
