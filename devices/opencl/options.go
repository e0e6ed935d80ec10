//go:build cgo

package opencl

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"

	"godwit/devices"
	"godwit/mem"
)

// The parameters of an Open, and the environment, which is read here (and, where it is
// a platform's own, in quirks.go).

// loaderByEnv is the OpenCL loader to open in place of the system's; "" is that.
func loaderByEnv() string { return os.Getenv("GODWIT_OPENCL_LIBRARY") }

// cudaByEnv is CUDA's driver library that is opened in place of the system's; "" is that.
func cudaByEnv() string { return os.Getenv("GODWIT_CUDA_LIBRARY") }

// nvlinkByEnv is whether links between GPUs are used where a device's parameters do not
// say.
func nvlinkByEnv() toggle { return toggle(os.Getenv("GODWIT_NVLINK")) }

// debugging is whether a word is in GODWIT_DEBUG.
func debugging(word string) bool { return strings.Contains(os.Getenv("GODWIT_DEBUG"), word) }

// toggle is a parameter that is "on", "off" or, where it was not given, the default.
type toggle string

func (t toggle) or(byDefault bool) bool {
	if t == "" {
		return byDefault
	}
	return t == "on"
}

// options are the parameters of an Open beyond the selection.
type options struct {
	name   string
	memory uint64 // bytes; 0 is the device's own
	slab   uint64 // bytes; 0 is the default
	carve  toggle
	direct toggle
	events string // "watch", "callback", "" for the default; of the platform's first device
	worker toggle // of the platform's first device
	quiet  toggle // of the platform's first device
	bus    toggle
	nvlink toggle // of the platform's first device
}

// over are a platform's quirks as the options have them.
func (o *options) over(q quirks) quirks {
	q.oneThread = o.worker.or(q.oneThread)
	q.checks = q.checks && q.oneThread
	nvlink := cmp.Or(o.nvlink, nvlinkByEnv())
	q.untried = nvlink == "try"
	q.windows = (q.untried || nvlink.or(q.windows)) && !q.oneThread
	q.slowEvents = o.quiet.or(q.slowEvents) && !q.oneThread
	if o.events != "" {
		q.slowCallbacks = o.events == "watch"
	}
	return q
}

// ParseSelection reads a selection from the parameters of a devices.Config, as
// opening devices does; unknown parameters are errors.
func ParseSelection(params map[string]string) (Selection, error) {
	sel, _, err := parse(devices.Config{Params: params})
	return sel, err
}

// parse reads the parameters; unknown ones are errors.
func parse(cfg devices.Config) (Selection, options, error) {
	sel, opts := Selection{}, options{name: cfg.Name, memory: cfg.Memory}
	var err error
	if cfg.Local != 0 {
		return sel, opts, fmt.Errorf("driver opencl: local memory of %d bytes: a real device's cannot be chosen: %w", cfg.Local, mem.ErrInvalidValue)
	}
	switches := map[string]*toggle{"carve": &opts.carve, "worker": &opts.worker, "quiet": &opts.quiet, "direct": &opts.direct, "bus": &opts.bus, "nvlink": &opts.nvlink}
	for key, v := range cfg.Params {
		ok := true
		switch key {
		case "platform":
			sel.Platform = v
		case "device":
			sel.Device = v
		case "type":
			sel.Type = devices.Type(v)
			ok = sel.Type == devices.CPU || sel.Type == devices.GPU || sel.Type == devices.Accelerator || sel.Type == devices.Custom
		case "count":
			sel.Count, err = strconv.Atoi(v)
			ok = err == nil && sel.Count > 0
		case "events":
			opts.events = v
			ok = v == "watch" || v == "callback"
		case "slab":
			opts.slab, err = strconv.ParseUint(v, 10, 64)
			ok = err == nil && opts.slab > 0
		default:
			t := switches[key]
			if t == nil {
				return sel, opts, fmt.Errorf("driver opencl: parameter %q: it takes platform, device, type, count, bus, carve, slab, direct, events, nvlink, worker and quiet: %w", key, mem.ErrInvalidValue)
			}
			*t = toggle(v)
			ok = v == "on" || v == "off" || v == "try" && key == "nvlink"
		}
		if !ok {
			return sel, opts, fmt.Errorf("driver opencl: parameter %s: %q is none of its values: %w", key, v, mem.ErrInvalidValue)
		}
	}
	return sel, opts, nil
}
