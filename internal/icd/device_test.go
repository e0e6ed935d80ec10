//go:build cgo

package icd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"godwit/devices"
	"godwit/devices/opencl"
	"godwit/internal/icd/devicefile"
)

func TestConfigurationIsReadFromTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "devices.yaml")
	read := func(env map[string]string) (config, error) {
		return readConfig(func(k string) string { return env[k] })
	}
	write := func(text string) map[string]string {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return map[string]string{"GODWIT_DEVICES": file}
	}
	c, err := read(map[string]string{"GODWIT_DEVICES": "5", "GODWIT_DEVICE_TYPE": "gpu", "GODWIT_BACKEND": "libother.so", "GODWIT_ATEXIT": "off"})
	require.NoError(t, err)
	require.Equal(t, 5, c.count)
	require.EqualValues(t, typeGPU, c.typ)
	require.Equal(t, "libother.so", c.library)
	require.False(t, c.leadExit)

	c, err = read(write("devices:\n- {name: a, count: 2, memory: 64 MiB, type: cpu, device: 0}\n- {name: b}\nlinks:\n- {between: [a0, b], way: direct, latency: 5 us, bandwidth: 2 GB/s}\n"))
	require.NoError(t, err)
	require.Equal(t, []devicefile.Device{{Name: "a0", Memory: 64 << 20, Real: "0", Type: "cpu"}, {Name: "a1", Memory: 64 << 20, Real: "0", Type: "cpu"}, {Name: "b"}}, c.devices)
	require.Len(t, c.links, 2)
	require.Equal(t, "b", c.links[1].From)
	require.EqualValues(t, 2e9, c.links[0].Link.Direct.Bandwidth)

	for text, says := range map[string]string{
		"devices: []":                                "0 devices",
		"devices: [{name: a}, {name: a}]":            "two devices",
		"devices: [{name: host}]":                    "two devices",
		"devices: [{memory: much}]":                  "memory",
		"devices: [{type: quantum}]":                 "type",
		"devices: [{driver: tce}]":                   "driver",
		"devices: [{colour: red}]":                   "colour",
		"devices: [{name: a}]\nlinks: [{from: a}]":   "no such devices",
		"devices: [{name: a}]\nlinks: [{way: over}]": "way",
	} {
		_, err := read(write(text))
		require.ErrorContains(t, err, says, text)
	}
	for name, v := range map[string]string{"GODWIT_DEVICES": "0", "GODWIT_DEVICE_TYPE": "qpu"} {
		_, err := read(map[string]string{name: v})
		require.ErrorContains(t, err, name)
	}
	_, err = read(map[string]string{"GODWIT_DEVICES": "nowhere.yaml"})
	require.ErrorContains(t, err, "a file of devices")
	c, err = read(map[string]string{"GODWIT_DEVICES": "2, gpu0,"})
	require.NoError(t, err)
	require.Equal(t, []string{"2", "gpu0"}, c.chosen)
	_, err = read(map[string]string{"GODWIT_DEVICES": "2,,1"})
	require.ErrorContains(t, err, "GODWIT_DEVICES=2,,1: ")
}

func TestTheLanguageIsTheRealDevicesAndTheRuntimeOurs(t *testing.T) {
	language := []string{"cl_khr_fp64", "cl_khr_subgroups", "cl_khr_subgroup_ballot", "cl_khr_integer_dot_product", "cl_khr_il_program", "cl_khr_spirv_linkonce_odr", "cl_nv_pragma_unroll"}
	runtime := []string{"cl_khr_command_buffer", "cl_khr_gl_sharing", "cl_khr_3d_image_writes", "cl_khr_create_command_queue", "cl_ext_buffer_device_address", "cl_nv_copy_opts", "cl_khr_semaphore", "cl_khr_spir"}
	d := &device{p: &platform{}, found: opencl.Found{Info: devices.Info{Extensions: slices.Concat(language, runtime)}}}
	require.Equal(t, append(language, contentSize), d.extensions())

	one, two, other := &device{p: d.p}, &device{p: d.p}, &device{p: d.p, found: opencl.Found{Index: 1}}
	d.p.devices = []*device{one, other}
	require.True(t, one.hasGlobals() && other.hasGlobals())
	d.p.devices = []*device{one, two, other}
	require.False(t, one.hasGlobals() || two.hasGlobals(), "they are one real device, which has a variable once")
	require.True(t, other.hasGlobals())
	require.False(t, (&device{p: d.p, parent: other, found: other.found}).hasGlobals())
}

func TestAListChoosesAndOrdersDevices(t *testing.T) {
	p := &platform{config: config{devices: []devicefile.Device{{}, {Type: "gpu"}, {Name: "big", Real: "1"}, {Type: "gpu"}}}}
	found := []opencl.Found{{Info: devices.Info{Name: "Small One", Type: devices.CPU}}, {Info: devices.Info{Name: "Large One", Type: devices.CPU}, Index: 1}}
	all, err := p.describe(found)
	require.NoError(t, err)
	for want, is := range map[string][]string{
		"0": {"cpu0"}, "3,0": {"gpu1", "cpu0"}, "gpu1,big,cpu0": {"gpu1", "big", "cpu0"}, "2,gpu0": {"big", "gpu0"},
		"0,1,2,3": {"cpu0", "gpu0", "big", "gpu1"},
	} {
		list, err := pick(all, strings.Split(want, ","))
		require.NoError(t, err, want)
		var got []string
		for _, d := range list {
			got = append(got, d.name)
		}
		require.Equal(t, is, got, want)
	}
	for want, says := range map[string]string{
		"4":      `no device "4"`,
		"-1":     `no device "-1"`,
		"gpu2":   "there are cpu0 (Small One), gpu0 (Large One), big (Large One), gpu1 (Large One)",
		"one":    "part of the names of several",
		"large":  "part of the names of several: gpu0 (Large One), big",
		"0,cpu0": "device cpu0 is there twice",
	} {
		_, err := pick(all, strings.Split(want, ","))
		require.ErrorContains(t, err, says, want)
	}
	list, err := pick(all, []string{"small"})
	require.NoError(t, err)
	require.Equal(t, "cpu0", list[0].name, "part of the real device's name, which one has")
}

func TestDevicesAnswerQueries(t *testing.T) {
	l := newLab(t)
	d := l.devs[1]
	of := func(what uint32) func(uint64, unsafe.Pointer, unsafe.Pointer) int32 {
		return func(room uint64, value, size unsafe.Pointer) int32 {
			return gwGetDeviceInfo(d, what, room, value, size)
		}
	}
	require.Contains(t, str(l, of(0x102B)), "(cpu1)")
	require.True(t, strings.HasPrefix(str(l, of(0x102F)), "OpenCL "))
	require.EqualValues(t, 1, word[uint32](l, of(0x1016)), "images")
	require.EqualValues(t, typeCPU, word[uint64](l, of(0x1000)))
	require.NotContains(t, str(l, of(0x1030)), "image2d_from_buffer")
	require.EqualValues(t, 3, word[uint64](l, of(0x102A)))
	for what := uint32(0x1000); what <= 0x1072; what++ { // all that OpenCL has by 3.0
		if what == 0x103F+0x2E || what == 0x105F || (what > 0x1069 && what < 0x106F) {
			continue
		}
		var size, again uint64
		require.Zero(t, gwGetDeviceInfo(d, what, 0, nil, at(&size)), "%#x", what)
		value := make([]byte, size+1)
		require.Zero(t, gwGetDeviceInfo(d, what, size, at(&value[0]), at(&again)), "%#x", what)
		require.Equal(t, size, again)
		if size > 0 && what != 0x1070 {
			require.Equal(t, clInvalidValue, gwGetDeviceInfo(d, what, size-1, at(&value[0]), nil), "%#x", what)
		}
	}
	require.Equal(t, clInvalidValue, gwGetDeviceInfo(d, 0x2222, 8, nil, nil))
}

func TestKernelsSeeNoFeatureThatDevicesDoNotList(t *testing.T) {
	l := newLab(t)
	d := l.devs[0]
	require.Regexp(t, `^v\d{4}-\d{2}-\d{2}-\d{2}$`, str(l, func(room uint64, value, size unsafe.Pointer) int32 {
		return gwGetDeviceInfo(d, 0x1072, room, value, size)
	}), "the conformance version's form")
	require.Zero(t, gwBuildProgram(l.source(`
		#ifndef __IMAGE_SUPPORT__
		#error images are there
		#endif
		#if !defined __opencl_c_images || defined __opencl_c_pipes || defined __opencl_c_device_enqueue
		#error features
		#endif
		#ifndef cl_khr_byte_addressable_store
		#error what devices list is there
		#endif
		kernel void k(global int *a) { a[0] = 1; }`), 0, nil, cstr("-cl-std=CL3.0"), nil, nil))
	for _, options := range []string{"", "-Werror", "-cl-std=CL1.2 -Werror"} {
		require.Zero(t, gwBuildProgram(l.source("kernel void k(global int *a) { a[0] = __LINE__; }"), 0, nil, cstr(options), nil, nil), options)
	}
	wrong := l.source("kernel void k(global int *a) {\n  a[0] = undeclared;\n}")
	require.NotZero(t, gwBuildProgram(wrong, 0, nil, cstr(""), nil, nil))
	require.Regexp(t, `:2:10: `, str(l, buildOf(wrong, d, buildLog)), "lines and columns are the program's")
}

func TestPlatformsListTheirDevices(t *testing.T) {
	l := newLab(t)
	var p uintptr
	var n uint32
	require.Zero(t, gwGetPlatformIDs(1, at(&p), at(&n)))
	require.EqualValues(t, 1, n)
	of := func(what uint32) func(uint64, unsafe.Pointer, unsafe.Pointer) int32 {
		return func(room uint64, value, size unsafe.Pointer) int32 {
			return gwGetPlatformInfo(p, what, room, value, size)
		}
	}
	require.Equal(t, "Godwit", str(l, of(0x0902)))
	require.Contains(t, str(l, of(0x0904)), "cl_khr_icd")
	require.NotEmpty(t, str(l, of(0x0920)), "the ICD suffix")
	ids := make([]uintptr, len(l.devs))
	for name, c := range map[string][2]int32{
		"all":             {gwGetDeviceIDs(p, typeAll, uint32(len(ids)), at(&ids[0]), at(&n)), clSuccess},
		"nowhere":         {gwGetDeviceIDs(p, typeAll, 0, nil, nil), clInvalidValue},
		"accelerators":    {gwGetDeviceIDs(p, typeAccelerator, 0, nil, at(&n)), clDeviceNotFound},
		"platforms, none": {gwGetPlatformIDs(0, nil, nil), clInvalidValue},
	} {
		require.Equal(t, c[1], c[0], name)
	}
	require.Zero(t, gwGetDeviceIDs(0, typeCPU, uint32(len(ids)), at(&ids[0]), at(&n)))
	require.EqualValues(t, len(l.devs), n)
	require.Equal(t, l.devs, ids)
}

// split makes sub-devices of the first device; it skips if that cannot be split.
func (l *lab) split(properties ...uintptr) ([]uintptr, int32) {
	l.Helper()
	d := l.devs[0]
	if devs.get(d).computeUnits() < 2 {
		l.Skip("one compute unit cannot be split")
	}
	var n uint32
	if st := gwCreateSubDevices(d, at(&properties[0]), 0, nil, at(&n)); st != clSuccess {
		return nil, st
	}
	out := make([]uintptr, n)
	return out, gwCreateSubDevices(d, at(&properties[0]), n, at(&out[0]), nil)
}

// inParts is a lab over the first device's two parts and the device itself, in this order.
func inParts(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	list, st := l.split(0x1088, 1, 0)
	require.Zero(t, st)
	for _, p := range list {
		t.Cleanup(func() { release(p) })
	}
	l.devs = append(list, l.devs[0])
	l.ctx = l.make(gwCreateContext(nil, uint32(len(l.devs)), at(&l.devs[0]), nil, nil))
	l.queues = nil
	for _, d := range l.devs {
		l.queues = append(l.queues, l.make(gwCreateCommandQueue(l.ctx, d, 0)))
	}
	return l
}

// addsOn runs the kernel add of a program on each device, in turns over one buffer.
func (l *lab) addsOn(p uintptr) {
	l.Helper()
	k, a, b := l.kernel(p, "add"), l.ints(0, 0, 0, 0), l.ints(1, 2, 3, 4)
	l.set(k, a, b, int32(1))
	for i, q := range l.queues {
		require.Zero(l, launch(q, k, 4, 0), "device %d", i)
		n := int32(i + 1)
		require.Equal(l, []int32{n, 2 * n, 3 * n, 4 * n}, l.read(q, a, 4), "device %d", i)
	}
}

func TestWhatIsBuiltForADeviceRunsOnItsParts(t *testing.T) {
	l := inParts(t)
	whole := l.devs[2]
	p := l.source(twoKernels)
	require.Zero(t, gwBuildProgram(p, 1, at(&whole), cstr(""), nil, nil))
	for i, d := range l.devs {
		require.EqualValues(t, buildDone, word[int32](l, buildOf(p, d, buildStatusInfo)), "device %d", i)
	}
	l.addsOn(p)

	part := l.source(twoKernels) // the other way round it is not
	require.Zero(t, gwBuildProgram(part, 1, at(&l.devs[0]), cstr(""), nil, nil))
	require.EqualValues(t, buildDone, word[int32](l, buildOf(part, l.devs[0], buildStatusInfo)))
	require.EqualValues(t, buildNone, word[int32](l, buildOf(part, l.devs[1], buildStatusInfo)))
	require.EqualValues(t, buildNone, word[int32](l, buildOf(part, whole, buildStatusInfo)))
	k := l.kernel(part, "add")
	l.set(k, l.ints(0), l.ints(0), int32(1))
	require.Zero(t, launch(l.queues[0], k, 1, 0))
	require.Equal(t, clInvalidProgramExecutable, launch(l.queues[1], k, 1, 0))
	require.Equal(t, clInvalidProgramExecutable, launch(l.queues[2], k, 1, 0))
}

func TestALinkedProgramAndABinaryOfADeviceRunOnItsParts(t *testing.T) {
	l := inParts(t)
	whole := l.devs[2]
	compiled := l.source(twoKernels)
	require.Zero(t, gwCompileProgram(compiled, 1, at(&whole), cstr(""), 0, nil, nil, nil, nil))
	linked := l.make(gwLinkProgram(l.ctx, 1, at(&whole), cstr(""), 1, at(&compiled), nil, nil))
	require.EqualValues(t, 1, word[uint32](l, programOf(linked, programNumDevices)), "as it was listed")
	l.addsOn(linked)

	var size uint64
	require.Zero(t, gwGetProgramInfo(linked, programSizes, 8, at(&size), nil))
	code := make([]byte, size)
	to := unsafe.Pointer(&code[0])
	require.Zero(t, gwGetProgramInfo(linked, programBinaries, 8, at(&to), nil))
	binary := l.make(gwCreateProgramWithBinary(l.ctx, 1, at(&whole), at(&size), at(&to), nil))
	require.Zero(t, gwBuildProgram(binary, 1, at(&whole), cstr(""), nil, nil))
	l.addsOn(binary)
	require.Positive(t, word[uint64](l, groupOf(l.kernel(binary, "add"), 0, groupSize)), "one device is the program's: it need not be named")
}

func TestSubDevicesHaveMemoriesOfTheirOwn(t *testing.T) {
	l := newLab(t)
	d, split := l.devs[0], l.split
	units := devs.get(d).computeUnits()
	for name, c := range map[string]struct {
		properties []uintptr
		st         int32
	}{
		"unknown":        {[]uintptr{1, 0}, clInvalidValue},
		"equally by 0":   {[]uintptr{0x1086, 0, 0}, clInvalidValue},
		"too many units": {[]uintptr{0x1086, uintptr(units) + 1, 0}, clDevicePartitionFailed},
		"counts beyond":  {[]uintptr{0x1087, uintptr(units) + 1, 0}, clInvalidDevicePartitionCount},
		"no counts":      {[]uintptr{0x1087, 0}, clDevicePartitionFailed},
		"odd domain":     {[]uintptr{0x1088, 1 << 10, 0}, clInvalidValue},
	} {
		_, st := split(c.properties...)
		require.Equal(t, c.st, st, name)
	}
	parts, st := split(0x1088, 1, 0)
	require.Zero(t, st)
	require.Len(t, parts, 2)
	ctx := l.made(gwCreateContext(nil, 2, at(&parts[0]), nil, nil))
	c := contexts.get(ctx)
	require.NotNil(t, c)
	m := l.made(gwCreateBuffer(ctx, 0, 1<<16, nil))
	v := int32(5)
	for _, p := range parts {
		q := l.made(gwCreateCommandQueue(ctx, p, 0))
		require.Zero(t, gwEnqueueFillBuffer(q, m, at(&v), 4, 0, 1024, 0, nil, nil))
		require.Zero(t, gwEnqueueFillBuffer(q, m, at(&v), 4, 1024, 1024, 0, nil, nil))
		require.Zero(t, gwEnqueueReadBuffer(q, m, 1, 0, 4, at(&v), 0, nil, nil))
		release(q)
	}
	release(m)
	release(ctx)
	before := live(&devs)
	for _, p := range parts {
		require.True(t, release(p))
	}
	require.Eventually(t, func() bool { return live(&devs) <= before-2 }, 10e9, 1e6, "the context has let go of them")
}
