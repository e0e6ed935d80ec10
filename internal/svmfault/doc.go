// Package svmfault explains touches of shared virtual memory that come from C, or
// from kernels that run in this process, before they crash it: it prints the
// address, the block, and who freed or unmapped it, in the words of
// svm.Arena.Explain. (Touches from Go are explained by svm.Arena.Guard.)
//
// It is opt-in: give FromEnvironment to runtime.Options.SVMWatch; it watches where
// GODWIT_DEBUG holds the word svm.
//
// # How
//
// The first watch installs a handler of SIGSEGV. It looks at the fault's address;
// where that lies in a watched arena it reads the arena's table (svm.Table), which
// needs no lock, and writes one line to standard error. Then, and for any other
// fault at once, the handler that was there before has its turn, with the same
// arguments: the Go runtime's, which crashes with "signal arrived during cgo
// execution" or makes a panic of it, or in a program that is not Go's whatever
// that program had installed. The handler runs on the alternative stack, as the
// Go runtime asks of handlers; it calls nothing but write.
//
// A fault of Go code while a Guard is under way is the Guard's to explain, and
// nothing is printed for it. Where C code installs a handler of its own later,
// without calling the one before, nothing is printed either.
//
// It uses cgo since a signal handler cannot be Go. Without cgo, watching fails and says so.
package svmfault

import (
	"os"
	"slices"
	"strings"

	"godwit/svm"
)

// FromEnvironment is what explains touches, where the environment variable GODWIT_DEBUG
// holds the word svm (words are parted by commas), else nil: nobody watches.
func FromEnvironment() svm.Watch {
	if slices.Contains(strings.Split(os.Getenv("GODWIT_DEBUG"), ","), "svm") {
		return watch
	}
	return nil
}
