package devices

import (
	"errors"
	"fmt"

	"godwit/mem"
)

// DependencyError is how a command fails when a point it has a Data wait on
// has failed. It is a mem.ErrDependency and also wraps the first cause: in a
// chain of dependents, all name the same one.
type DependencyError struct {
	Point mem.Point // whose failure it was first
	Cause error     // why that point failed; never a DependencyError
}

// Dependency returns the error of a command with a Data wait on p, which
// failed with err.
func Dependency(p mem.Point, err error) *DependencyError {
	var d *DependencyError
	if errors.As(err, &d) {
		return d
	}
	return &DependencyError{p, err}
}

// Error implements error.
func (d *DependencyError) Error() string {
	return fmt.Sprintf("%v: %v: %v", mem.ErrDependency, d.Point, d.Cause)
}

// Unwrap returns mem.ErrDependency and the cause.
func (d *DependencyError) Unwrap() []error { return []error{mem.ErrDependency, d.Cause} }

// Status is that of mem.ErrDependency.
func (d *DependencyError) Status() mem.Status { return mem.ExecStatusErrorInWaitList }
