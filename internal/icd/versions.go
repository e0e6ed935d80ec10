//go:build cgo

package icd

// #include "command_buffer.h"
import "C"

import "fmt"

// Versions of cl_khr_command_buffer. It is provisional, and has changed under the same names: what a program
// was compiled for only it can know.

// bufferVersion is what GODWIT_COMMAND_BUFFER names.
type bufferVersion struct {
	base, mutable, multi uint32 // cl_version
	linked               bool   // commands have no properties, updates are linked structures
	pending              bool   // a command buffer that is under way is Pending, and not enqueued again unless that was asked for
}

// bufferVersions are those that differ in what a program sees; the first is taken where none is named.
var bufferVersions = map[string]*bufferVersion{
	"":      {base: version3(0, 9, 8), mutable: version3(0, 9, 5), multi: version3(0, 9, 2)},
	"0.9.8": {base: version3(0, 9, 8), mutable: version3(0, 9, 5), multi: version3(0, 9, 2)},
	"0.9.7": {base: version3(0, 9, 7), mutable: version3(0, 9, 3), multi: version3(0, 9, 2), pending: true},
	"0.9.0": {base: version3(0, 9, 0), mutable: version3(0, 9, 0), multi: version3(0, 9, 0), linked: true, pending: true},
	"off":   nil,
}

// findBufferVersion finds a version by name; nil is none.
func findBufferVersion(name string) (*bufferVersion, error) {
	v, ok := bufferVersions[name]
	if !ok {
		return nil, fmt.Errorf("GODWIT_COMMAND_BUFFER=%s: it is 0.9.8, 0.9.7, 0.9.0 or off", name)
	}
	return v, nil
}

// offer gives programs the functions of the version; nil has none.
func (v *bufferVersion) offer() {
	switch {
	case v == nil:
		C.gw_command_buffer_functions = nil
	case v.linked:
		C.gw_offer_0_9_0()
	}
}

// version is the version that programs have; there is one where there are command buffers.
func version() *bufferVersion { return start().config.commandBuffers }

// newest reports whether programs have version 0.9.8.
func newest() bool { return !version().pending }

// version3 is a cl_version.
func version3(major, minor, patch uint32) uint32 { return versionNumber(major, minor) | patch }

// extensions are the names and versions of those of the runtime's that there are.
func (c *config) extensions() (names []string, versions map[string]uint32) {
	names = []string{contentSize}
	if v := c.commandBuffers; v != nil {
		versions = map[string]uint32{
			"cl_khr_command_buffer": v.base, "cl_khr_command_buffer_mutable_dispatch": v.mutable, "cl_khr_command_buffer_multi_device": v.multi,
		}
		names = append(names, "cl_khr_command_buffer", "cl_khr_command_buffer_mutable_dispatch", "cl_khr_command_buffer_multi_device")
	}
	return names, versions
}

// What devices and the platform answer of command buffers, by parameters that installed headers may not have.
const (
	deviceBufferCapabilities = 0x12A9
	deviceBufferSupports     = 0x129A
	deviceBufferRequires     = 0x12AA
	deviceSyncCount          = 0x12AB
	deviceSyncDevices        = 0x12AC
	deviceMutable            = 0x12B0
	platformCapabilities     = 0x0908

	canPrintf, canSimultaneous, canOutOfOrder, canSeveral = 1 << 0, 1 << 2, 1 << 3, 1 << 4
	syncAll, remapQueues, remapByItself                   = 1 << 0, 1 << 1, 1 << 2
)

// bufferFact answers a parameter of a device; nil is none of them.
func (d *device) bufferFact(what uint32) any {
	v := d.p.config.commandBuffers
	if v == nil {
		return nil
	}
	switch what {
	case deviceBufferCapabilities:
		can := uint64(canPrintf | canSimultaneous | canSeveral)
		if v.linked {
			can |= canOutOfOrder
		}
		return can
	case deviceBufferSupports:
		return uint64(queueFlags)
	case deviceBufferRequires:
		return uint64(0)
	case deviceMutable:
		return uint64(allFields)
	case deviceSyncCount:
		return uint32(0) // it is the host that synchronises
	case deviceSyncDevices:
		return []byte{}
	}
	return nil
}

// isBufferParameter reports whether a device's parameter is of these extensions: the device beneath is not asked, which may
// have them by itself.
func isBufferParameter(what uint32) bool {
	switch what {
	case deviceBufferCapabilities, deviceBufferSupports, deviceBufferRequires, deviceMutable, deviceSyncCount, deviceSyncDevices:
		return true
	}
	return false
}
