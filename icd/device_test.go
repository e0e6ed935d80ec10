//go:build cgo

package icd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
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
	require.Equal(t, []wanted{{name: "a0", memory: 64 << 20, real: "0", typ: typeCPU}, {name: "a1", memory: 64 << 20, real: "0", typ: typeCPU}, {name: "b"}}, c.devices)
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
	require.ErrorContains(t, err, "neither a number nor a file")
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
	require.Zero(t, word[uint32](l, of(0x1016)), "no images")
	require.EqualValues(t, typeCPU, word[uint64](l, of(0x1000)))
	require.NotContains(t, str(l, of(0x1030)), "image")
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
		"no room":         {gwGetDeviceIDs(p, typeAll, 0, at(&ids[0]), nil), clInvalidValue},
		"nowhere":         {gwGetDeviceIDs(p, typeAll, 0, nil, nil), clInvalidValue},
		"of no type":      {gwGetDeviceIDs(p, 0, 0, nil, at(&n)), clInvalidDeviceType},
		"accelerators":    {gwGetDeviceIDs(p, typeAccelerator, 0, nil, at(&n)), clDeviceNotFound},
		"platforms, none": {gwGetPlatformIDs(0, nil, nil), clInvalidValue},
	} {
		require.Equal(t, c[1], c[0], name)
	}
	require.Zero(t, gwGetDeviceIDs(0, typeCPU, uint32(len(ids)), at(&ids[0]), at(&n)))
	require.EqualValues(t, len(l.devs), n)
	require.Equal(t, l.devs, ids)
}

func TestSubDevicesHaveMemoriesOfTheirOwn(t *testing.T) {
	l := newLab(t)
	d := l.devs[0]
	units := devs.get(d).computeUnits()
	if units < 2 {
		t.Skip("one compute unit cannot be split")
	}
	split := func(properties ...uintptr) ([]uintptr, int32) {
		var n uint32
		if st := gwCreateSubDevices(d, at(&properties[0]), 0, nil, at(&n)); st != clSuccess {
			return nil, st
		}
		out := make([]uintptr, n)
		return out, gwCreateSubDevices(d, at(&properties[0]), n, at(&out[0]), nil)
	}
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
	ctx := gwCreateContext(nil, 2, at(&parts[0]), nil, nil, nil)
	c := contexts.get(ctx)
	require.NotNil(t, c)
	m := gwCreateBuffer(ctx, 0, 1<<16, nil, nil)
	v := int32(5)
	for _, p := range parts {
		q := gwCreateCommandQueue(ctx, p, 0, nil)
		require.Zero(t, gwEnqueueFillBuffer(q, m, at(&v), 4, 0, 1024, 0, nil, nil))
		require.Zero(t, gwEnqueueFillBuffer(q, m, at(&v), 4, 1024, 1024, 0, nil, nil))
		require.Zero(t, gwEnqueueReadBuffer(q, m, 1, 0, 4, at(&v), 0, nil, nil))
		release(q)
	}
	release(m)
	release(ctx)
	before := live(kindDevice)
	for _, p := range parts {
		require.True(t, release(p))
	}
	require.Eventually(t, func() bool { return live(kindDevice) == before-2 }, 10e9, 1e6, "the context has let go of them")
}
