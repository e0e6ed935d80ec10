package mover

import (
	"context"
	"sync"

	"godwit/mem"
)

// userCopy is a copy between user memory and a block through staging, as what a command
// calls (devices.Command.Call). Pooled; one that is never called is left to the
// collector.
type userCopy struct {
	m      *Mover
	t      Transfer
	to     [1]End
	points [1]mem.Point
	call   func(context.Context) error // made once
}

var userCopies sync.Pool

// Bytes returns a function that copies between bytes of the user's, which must stay
// as they are until it returns, and a part of a block: into it, or out of it. It blocks
// until the copy has ended, and is to be called at most once.
func (m *Mover) Bytes(block End, bytes []byte, into bool) func(context.Context) error {
	c, ok := userCopies.Get().(*userCopy)
	if !ok {
		c = new(userCopy)
		c.call = c.run
	}
	c.m = m
	c.t = Transfer{Way: mem.Ring, Size: uint64(len(bytes)), To: c.to[:], Points: c.points[:]}
	user := End{Memory: mem.Host, Bytes: bytes}
	if c.t.From, c.to[0] = block, user; into {
		c.t.From, c.to[0] = user, block
	}
	return c.call
}

func (c *userCopy) run(context.Context) error {
	err := c.m.Move(&c.t)
	if err == nil {
		err = c.points[0].Wait(context.Background()) // the bytes are in use until then
	}
	c.m, c.t, c.to, c.points = nil, Transfer{}, [1]End{}, [1]mem.Point{}
	userCopies.Put(c)
	return err
}
