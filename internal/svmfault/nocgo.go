//go:build !cgo

package svmfault

import (
	"fmt"

	"godwit/mem"
	"godwit/svm"
)

// watch fails: the handler is C.
func watch(*svm.Table) (stop func(), err error) {
	return nil, fmt.Errorf("watching shared virtual memory: this program was built without cgo: %w", mem.ErrInvalidOperation)
}
