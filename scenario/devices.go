package scenario

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	"godwit/devices"
	"godwit/mem"
)

// openReal asks a real driver for a number of devices at once.
func openReal(ctx context.Context, group []Device, cfg devices.Config) ([]devices.Device, error) {
	cfg.Params = maps.Clone(cfg.Params)
	cfg.Params["count"] = strconv.Itoa(len(group))
	devs, err := devices.Open(ctx, group[0].Driver, cfg)
	if err == nil && len(devs) != len(group) {
		err = fmt.Errorf("driver %s opened %d devices where %d were asked for: %w", group[0].Driver, len(devs), len(group), mem.ErrDeviceNotFound)
	}
	return devs, err
}
