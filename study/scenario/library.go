package scenario

import (
	"slices"
	"strings"
	"sync"

	"godwit/devices"
	"godwit/lib/kernels"
)

// library is the program with all kernels that a scenario can launch.
var library = sync.OnceValue(kernels.Program)

// kernelNamed returns a kernel's Go form, which also describes its arguments, or
// nil.
func kernelNamed(name string) *devices.GoKernel {
	all := library().Go
	if i := slices.IndexFunc(all, func(k devices.GoKernel) bool { return k.Name == name }); i >= 0 {
		return &all[i]
	}
	return nil
}

// signature is a kernel's argument list, for people.
func signature(k *devices.GoKernel) string {
	var args []string
	for _, a := range k.Args {
		t := a.Type
		switch a.Kind {
		case devices.ArgBuffer:
			if t = a.Access.String(); a.Type != "" { // else it has no code
				t += " " + a.Type + "[]"
			}
		case devices.ArgLocal:
			if t = "local"; a.Type != "" {
				t += " " + a.Type + "[]"
			}
		}
		args = append(args, t+" "+a.Name)
	}
	return k.Name + "(" + strings.Join(args, ", ") + ")"
}
