//go:build cgo

package icd

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"godwit/internal/icd/devicefile"
)

// Configuration by environment: a program that knows nothing of Godwit has no
// other way to say anything.

// config is what the environment asks for.
type config struct {
	library  string // of the driver that compiles and runs kernels
	devices  []devicefile.Device
	count    int      // of devices; 0 is the default. Where there is no list
	chosen   []string // of the devices that there would be, these in this order; nil is all
	links    []devicefile.Link
	typ      uint64 // cl_device_type of all devices; 0 is the real one's
	trace    string // see tracelog.Open
	summary  string
	record   string
	html     string
	timeline string
	// leadExit: other libraries' calls to __cxa_atexit are led through ours (internal/exit).
	leadExit bool
	// commandBuffers is the version of cl_khr_command_buffer; nil is none.
	commandBuffers *bufferVersion
}

// deviceTypes are the names of OpenCL's device types.
var deviceTypes = map[string]uint64{"cpu": typeCPU, "gpu": typeGPU, "accelerator": typeAccelerator}

// readConfig reads the environment.
func readConfig(env func(string) string) (config, error) {
	c := config{library: findBackend(env("GODWIT_BACKEND")), trace: env("GODWIT_TRACE"), summary: env("GODWIT_SUMMARY"), record: env("GODWIT_RECORD"), html: env("GODWIT_HTML"), timeline: env("GODWIT_TIMELINE"), leadExit: env("GODWIT_ATEXIT") != "off"}
	if t := env("GODWIT_DEVICE_TYPE"); t != "" {
		var ok bool
		if c.typ, ok = deviceTypes[t]; !ok {
			return c, fmt.Errorf("GODWIT_DEVICE_TYPE=%s: it is cpu, gpu or accelerator", t)
		}
	}
	var err error
	if c.commandBuffers, err = findBufferVersion(env("GODWIT_COMMAND_BUFFER")); err != nil {
		return c, err
	}
	text := env("GODWIT_DEVICES")
	w, err := devicefile.ParseWish(text)
	if err != nil {
		return c, fmt.Errorf("GODWIT_DEVICES=%s: %w", text, err)
	}
	c.count, c.chosen = w.Count, w.List
	if w.File == "" {
		return c, nil
	}
	f, err := devicefile.Read(context.Background(), w.File) // a regular file, which does not wait
	if err != nil {
		return c, fmt.Errorf("GODWIT_DEVICES, a file of devices: %w", err)
	}
	c.devices, c.links = f.Devices, f.Links
	return c, nil
}

// vendorFiles is where drivers say which library they are.
const vendorFiles = "/etc/OpenCL/vendors"

// known are drivers by a short name: the file that names the library, and what it
// is called where there is no such file.
var known = map[string]struct{ file, library string }{
	"pocl":     {"pocl.icd", "libpocl.so.2"},
	"nvidia":   {"nvidia.icd", "libnvidia-opencl.so.1"},
	"oclgrind": {"oclgrind.icd", "/usr/lib/oclgrind/liboclgrind-rt-icd.so"},
}

// findBackend is the library of a driver, given its path or short name; PoCL's
// where it is empty.
func findBackend(name string) string {
	name = cmp.Or(name, "pocl")
	k, ok := known[name]
	if !ok {
		return name
	}
	if text, err := os.ReadFile(filepath.Join(vendorFiles, k.file)); err == nil {
		if line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n"); line != "" {
			return line
		}
	}
	return k.library
}
