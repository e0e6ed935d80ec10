//go:build cgo

package icd

import (
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Calls of programs that are wrong, each with the status that OpenCL has for it. More, and wrong handles, are in
// tests/icd: testdata/errors.c.

func TestWrongCallsOfProgramsAreRefused(t *testing.T) {
	l := newLab(t)
	p, built, linked := l.source(twoKernels), l.build(l.source(twoKernels)), l.link(twoKernels, "#define BY 5\n")
	text, notText := cstr("x"), unsafe.Pointer(nil)
	none, junk := uint64(0), l.ctx+1
	code, nobody := []byte("no binary"), uintptr(0)
	codeAt, codeLen := at(&code[0]), uint64(len(code))
	var each int32
	fn := cstr("not called")
	dev := at(&l.devs[0])
	twice := []uintptr{l.devs[0], l.devs[0]}
	for name, c := range map[string]struct {
		want int32
		call func() int32
	}{
		"source, a NULL":              {clInvalidValue, func() int32 { return refused(gwCreateProgramWithSource(l.ctx, 1, at(&notText), nil)) }},
		"il":                          {clInvalidOperation, func() int32 { return refused(gwCreateProgramWithIL(l.ctx, codeAt, codeLen)) }},
		"il, no context":              {clInvalidContext, func() int32 { return refused(gwCreateProgramWithIL(junk, codeAt, codeLen)) }},
		"built-in kernels":            {clInvalidValue, func() int32 { return refused(gwCreateProgramWithBuiltInKernels(l.ctx, 1, dev, text)) }},
		"built-in kernels, no device": {clInvalidDevice, func() int32 { return refused(gwCreateProgramWithBuiltInKernels(l.ctx, 1, at(&junk), text)) }},
		"binary, no lengths":          {clInvalidValue, func() int32 { return refused(gwCreateProgramWithBinary(l.ctx, 1, dev, nil, at(&codeAt), nil)) }},
		"binary, no device": {clInvalidDevice, func() int32 {
			return refused(gwCreateProgramWithBinary(l.ctx, 1, at(&junk), at(&codeLen), at(&codeAt), nil))
		}},
		"binary, a device twice": {clInvalidDevice, func() int32 {
			lens, ats := []uint64{codeLen, codeLen}, []unsafe.Pointer{codeAt, codeAt}
			return refused(gwCreateProgramWithBinary(l.ctx, 2, at(&twice[0]), at(&lens[0]), at(&ats[0]), nil))
		}},
		"binary of no bytes": {clInvalidValue, func() int32 {
			defer func() { require.Equal(t, clInvalidValue, each) }()
			return refused(gwCreateProgramWithBinary(l.ctx, 1, dev, at(&none), at(&codeAt), at(&each)))
		}},
		"no binary": {-42, func() int32 {
			defer func() { require.EqualValues(t, -42, each) }()
			return refused(gwCreateProgramWithBinary(l.ctx, 1, dev, at(&codeLen), at(&codeAt), at(&each)))
		}},
		"build, no list":                 {clInvalidValue, func() int32 { return gwBuildProgram(p, 1, nil, nil, nil, nil) }},
		"build, empty list":              {clInvalidValue, func() int32 { return gwBuildProgram(p, 0, dev, nil, nil, nil) }},
		"build, user data alone":         {clInvalidValue, func() int32 { return gwBuildProgram(p, 0, nil, nil, nil, fn) }},
		"build, no device":               {clInvalidDevice, func() int32 { return gwBuildProgram(p, 1, at(&nobody), nil, nil, nil) }},
		"build of a linked program":      {clInvalidOperation, func() int32 { return gwBuildProgram(linked, 0, nil, nil, nil, nil) }},
		"build, no such option":          {-43, func() int32 { return gwBuildProgram(p, 0, nil, cstr("--no-such-option"), nil, nil) }},
		"compile of nothing":             {clInvalidProgram, func() int32 { return gwCompileProgram(junk, 0, nil, nil, 0, nil, nil, nil, nil) }},
		"compile, headers unnamed":       {clInvalidValue, func() int32 { return gwCompileProgram(p, 0, nil, nil, 1, at(&p), nil, nil, nil) }},
		"compile, names alone":           {clInvalidValue, func() int32 { return gwCompileProgram(p, 0, nil, nil, 0, nil, at(&text), nil, nil) }},
		"compile, no header":             {clInvalidProgram, func() int32 { return gwCompileProgram(p, 0, nil, nil, 1, at(&junk), at(&text), nil, nil) }},
		"compile of a linked one":        {clInvalidOperation, func() int32 { return gwCompileProgram(linked, 0, nil, nil, 0, nil, nil, nil, nil) }},
		"link of nothing":                {clInvalidValue, func() int32 { return l.refusedLink(0, nil) }},
		"link of no program":             {clInvalidProgram, func() int32 { return l.refusedLink(1, at(&junk)) }},
		"link of one not compiled":       {clInvalidOperation, func() int32 { return l.refusedLink(1, at(&p)) }},
		"link, no context":               {clInvalidContext, func() int32 { return refused(gwLinkProgram(junk, 0, nil, nil, 1, at(&p), nil, nil)) }},
		"link, no device":                {clInvalidDevice, func() int32 { return refused(gwLinkProgram(l.ctx, 1, at(&junk), nil, 1, at(&p), nil, nil)) }},
		"build info, no device":          {clInvalidDevice, func() int32 { return gwGetProgramBuildInfo(p, junk, buildLog, 0, nil, nil) }},
		"release callback":               {clInvalidOperation, func() int32 { return gwSetProgramReleaseCallback(p, fn, nil) }},
		"release callback, none":         {clInvalidValue, func() int32 { return gwSetProgramReleaseCallback(p, nil, nil) }},
		"kernels of a program not built": {clInvalidProgramExecutable, func() int32 { return gwCreateKernelsInProgram(p, 0, nil, nil) }},
		"room for too few kernels":       {clInvalidValue, func() int32 { return gwCreateKernelsInProgram(built, 1, at(&nobody), nil) }},
	} {
		require.Equal(t, c.want, c.call(), name)
	}
	require.Contains(t, strings.Split(str(l, programOf(linked, programNames)), ";"), "add", "refused calls change nothing")
}

func (l *lab) refusedLink(n uint32, inputs unsafe.Pointer) int32 {
	return refused(gwLinkProgram(l.ctx, 0, nil, nil, n, inputs, nil, nil))
}
