package scenario

import (
	"strings"

	"godwit/runtime"
)

// flagNames are OpenCL's names of flags, without CL_MEM_ or CL_MAP_, and in
// small letters.
type flagNames []struct {
	name  string
	flag  uint64
	group int // at most one of a group; 0 goes with all
}

var bufferFlags = flagNames{
	{"read-write", uint64(runtime.ReadWrite), 1},
	{"write-only", uint64(runtime.WriteOnly), 1},
	{"read-only", uint64(runtime.ReadOnly), 1},
	{"host-write-only", uint64(runtime.HostWriteOnly), 2},
	{"host-read-only", uint64(runtime.HostReadOnly), 2},
	{"host-no-access", uint64(runtime.HostNoAccess), 2},
	{"use-host-ptr", uint64(runtime.UseHostPtr), 3},
	{"alloc-host-ptr", uint64(runtime.AllocHostPtr), 0},
	{"copy-host-ptr", uint64(runtime.CopyHostPtr), 0},
}

var svmFlags = flagNames{
	{"read-write", uint64(runtime.ReadWrite), 1},
	{"write-only", uint64(runtime.WriteOnly), 1},
	{"read-only", uint64(runtime.ReadOnly), 1},
	{"fine-grain", uint64(runtime.SVMFineGrain), 0},
	{"atomics", uint64(runtime.SVMAtomics), 0},
}

var mapFlags = flagNames{
	{"read", uint64(runtime.MapRead), 0},
	{"write", uint64(runtime.MapWrite), 0},
	{"write-invalidate", uint64(runtime.MapInvalidate), 0},
}

// flags reads the word or words under flags. What excludes each other is an
// error.
func (l *loader) flags(m *mapping, names flagNames) (out uint64) {
	groups := make(map[int]string)
	for _, n := range l.list(m.get("flags")) {
		word := l.text(n, m.What+": flags")
		found := false
		for _, f := range names {
			if f.name != word {
				continue
			}
			found = true
			if other := groups[f.group]; other != "" && other != word && f.group != 0 {
				l.errorf(n, "%s: flags: %s beside %s: they exclude each other", m.What, word, other)
			}
			groups[f.group] = word
			out |= f.flag
		}
		if !found && word != "" {
			l.misshapen(n, "%s: flags %q: want some of %s", m.What, word, strings.Join(names.list(), ", "))
		}
	}
	use, other := uint64(runtime.UseHostPtr), out&uint64(runtime.AllocHostPtr|runtime.CopyHostPtr)
	if groups[3] != "" && out&use != 0 && other != 0 {
		l.errorf(m.get("flags"), "%s: flags: %s beside use-host-ptr: memory that is given is neither allocated nor copied", m.What, flagText(other, names))
	}
	return out
}

// list lists the names.
func (names flagNames) list() (out []string) {
	for _, f := range names {
		out = append(out, f.name)
	}
	return out
}

// flagText names the flags that are set.
func flagText(flags uint64, names flagNames) string {
	var out []string
	for _, f := range names {
		if flags&f.flag != 0 {
			out = append(out, f.name)
		}
	}
	return strings.Join(out, ", ")
}

const (
	accessFlags     = runtime.ReadWrite | runtime.WriteOnly | runtime.ReadOnly
	hostAccessFlags = runtime.HostWriteOnly | runtime.HostReadOnly | runtime.HostNoAccess
)

// parentFlags are those of what a sub-buffer is a part of.
func (s *Scenario) parentFlags(v *viewDecl) runtime.Flags {
	if v.Parent >= 0 {
		return s.Views[v.Parent].Flags
	}
	return s.Buffers[v.Buffer].Flags
}

// checkInherited holds a sub-buffer's flags against those of its buffer, which
// it inherits and may only narrow.
func (l *loader) checkInherited(m *mapping, v *viewDecl) {
	const hostMemory = runtime.UseHostPtr | runtime.AllocHostPtr | runtime.CopyHostPtr
	parent := l.out.parentFlags(v)
	if bad := v.Flags & hostMemory; bad != 0 {
		l.errorf(m.get("flags"), "%s: flags: %s: host memory is the buffer's, and inherited", m.What, flagText(uint64(bad), bufferFlags))
		return
	}
	for _, of := range []runtime.Flags{accessFlags, hostAccessFlags} {
		if _, err := (v.Flags & of).Inherit(parent); err != nil {
			l.errorf(m.get("flags"), "%s: flags: %s: its buffer is %s, and permits less", m.What, flagText(uint64(v.Flags&of), bufferFlags), flagText(uint64(parent&of), bufferFlags))
		}
	}
}

// access returns the flags that bind kernels and the host at a place.
func (s *Scenario) access(p place) runtime.Flags {
	switch b := &s.Buffers[p.Buffer]; {
	case p.View >= 0:
		v := &s.Views[p.View]
		if v.Over {
			return v.Flags
		}
		all, _ := v.Flags.Inherit(s.parentFlags(v)) // what is at fault was told when it was read
		return all
	case b.SVM != nil:
		return runtime.Flags(b.SVM.Flags) & accessFlags
	default:
		return b.Flags
	}
}
