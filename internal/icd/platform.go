//go:build cgo

package icd

// #include "object.h"
import "C"

import (
	"cmp"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"godwit/devices/opencl"
	"godwit/internal/icd/internal/exit"
	"godwit/internal/icd/tracelog"
	"godwit/internal/mover"
	"godwit/runtime"
)

// platform is the one platform there is, made when the loader first asks for it.
type platform struct {
	self     uintptr         // immutable
	config   config          // immutable
	devices  []*device       // immutable
	opening  sync.Mutex      // of devices
	trace    *tracelog.Files // immutable; nil where there is none
	contexts atomic.Int64    // made so far
	figures  mover.Figures   // of links, for all contexts
	broker   runtime.Broker  // of all contexts: they give each other room
}

// start makes the platform, once; nil where there can be none.
var start = sync.OnceValue(func() *platform {
	p, err := newPlatform()
	if err != nil {
		fmt.Fprintf(os.Stderr, "godwit: no OpenCL platform: %v\n", err)
		return nil
	}
	return p
})

// heapGrowth is how many percent Go's heap may grow by between two collections, where GOGC does not
// say: it holds little but the records of commands, of which a program enqueues thousands at once, and
// at Go's 100 it is collected at 4, 8, 16, 32 MiB while they are.
const heapGrowth = 400

func newPlatform() (*platform, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
	c, err := readConfig(os.Getenv)
	if err != nil {
		return nil, err
	}
	if err := opencl.UseDriver(c.library, exit.Guard()); err != nil {
		return nil, err
	}
	found, err := opencl.Select(opencl.Selection{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.library, err)
	}
	if !openArena() {
		return nil, fmt.Errorf("no address space for objects")
	}
	p := &platform{config: c}
	c.commandBuffers.offer()
	if p.trace, err = tracelog.Open(c.trace, c.summary, c.record, c.html, c.timeline); err != nil {
		return nil, err
	}
	platforms.add(p, &p.self) // the first: there is room
	return p, p.addDevices(found)
}

// gwGetPlatformIDs is also what the loader starts with.
//
//export gwGetPlatformIDs
func gwGetPlatformIDs(n uint32, list, num unsafe.Pointer) int32 {
	if (n == 0 && list != nil) || (list == nil && num == nil) {
		return clInvalidValue
	}
	p := start()
	if p == nil {
		if num != nil {
			*(*uint32)(num) = 0
		}
		return C.CL_PLATFORM_NOT_FOUND_KHR
	}
	return listIDs([]uintptr{p.self}, n, list, num)
}

// godwitVersion is Godwit's, as platform and devices give it.
const godwitVersion = "0.1"

const (
	platformVersion = "OpenCL 3.0 godwit " + godwitVersion
	contentSize     = "cl_pocl_content_size"
	fullProfile     = "FULL_PROFILE"
)

// versionNumber is a cl_version.
func versionNumber(major, minor uint32) uint32 { return major<<22 | minor<<12 }

//export gwGetPlatformInfo
func gwGetPlatformInfo(h uintptr, what uint32, room uint64, value, sizeRet unsafe.Pointer) int32 {
	p := platforms.get(h)
	if h == 0 {
		p = start() // OpenCL leaves it open; loaders and programs pass NULL
	}
	if p == nil {
		return clInvalidPlatform
	}
	return reply(p.fact(what), room, value, sizeRet)
}

// fact answers a query; nil is that there is no such parameter.
func (p *platform) fact(what uint32) any {
	names, versions := p.config.extensions()
	names = append([]string{"cl_khr_icd"}, names...)
	switch {
	case what == C.CL_PLATFORM_EXTENSIONS:
		return strings.Join(names, " ")
	case what == C.CL_PLATFORM_EXTENSIONS_WITH_VERSION:
		return nameVersions(names, versions)
	case what == platformCapabilities && p.config.commandBuffers != nil:
		return uint64(syncAll | remapQueues | remapByItself)
	}
	return platformFacts[what]
}

var platformFacts = map[uint32]any{
	C.CL_PLATFORM_PROFILE: fullProfile, C.CL_PLATFORM_VERSION: platformVersion, C.CL_PLATFORM_NAME: "Godwit", C.CL_PLATFORM_VENDOR: "Godwit",
	C.CL_PLATFORM_ICD_SUFFIX_KHR: "GODWIT", C.CL_PLATFORM_HOST_TIMER_RESOLUTION: uint64(1), C.CL_PLATFORM_NUMERIC_VERSION: versionNumber(3, 0),
}

// nameVersions are extensions as cl_name_version: 1.0 where versions has no other.
func nameVersions(names []string, versions map[string]uint32) (list []byte) {
	for _, n := range names {
		list = append(list, nameVersion(n, cmp.Or(versions[n], versionNumber(1, 0)))...)
	}
	return list
}

// nameVersion is a cl_name_version.
func nameVersion(name string, version uint32) []byte {
	b := make([]byte, C.sizeof_cl_name_version)
	*(*uint32)(unsafe.Pointer(&b[0])) = version
	copy(b[4:len(b)-1], name)
	return b
}
