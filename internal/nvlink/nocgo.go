//go:build !cgo

package nvlink

import (
	"context"
)

// Engine copies between GPUs: not in this program.
type Engine struct{}

// Window is memory of a GPU: there is none.
type Window struct{}

// Open always fails with errNoCgo.
func Open(context.Context, Options) (*Engine, error) { return nil, errNoCgo }
