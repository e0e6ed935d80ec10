//go:build !unix

package history

import "slices"

// lent is memory that a history lends to a buffer. Here nobody can take rights away.
type lent struct{ bytes []byte }

func lend(content []byte) (*lent, error) { return &lent{slices.Clone(content)}, nil }
func (l *lent) takeBack() error          { clear(l.bytes); return nil }
func (l *lent) end() error               { return nil }
