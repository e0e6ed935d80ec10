package mover

import (
	"godwit/devices"
	"godwit/mem"
)

// userCopy is a copy between user memory and a block through staging, as what a command
// is carried out by. The mover has it again at its end; one that is never begun is left to
// the collector.
type userCopy struct {
	m      *Mover
	t      Transfer
	to     [1]End
	points [1]mem.Point
	done   devices.Carried
}

// Bytes returns what copies between bytes of the user's and a part of a block: into it, or out of it. The bytes must
// stay as they are until it has told of its end, or the waiter that hand stands for has left; nil is nobody.
func (m *Mover) Bytes(block End, bytes []byte, into bool, hand *Hand) devices.Carrier {
	c, _ := m.copies.Get().(*userCopy)
	if c == nil {
		c = new(userCopy)
	}
	c.m = m
	c.t = Transfer{Way: mem.Ring, Size: uint64(len(bytes)), To: c.to[:], Points: c.points[:], Hand: hand}
	user := End{Memory: mem.Host, Bytes: bytes}
	if c.t.From, c.to[0] = block, user; into {
		c.t.From, c.to[0] = user, block
	}
	return c
}

// Carry implements devices.Carrier.
func (c *userCopy) Carry(done devices.Carried) {
	c.done = done
	ended, err := c.t.Hand.over()
	if !ended {
		err = c.m.Move(&c.t)
		ended = err != nil
	}
	if !ended {
		ended, err = c.points[0].Notify(c)
	}
	if ended { // not from within
		c.m.by.Go(func() { c.PointReached(c.points[0], err) })
	}
}

// PointReached implements mem.Waiter.
func (c *userCopy) PointReached(_ mem.Point, err error) {
	done, m := c.done, c.m
	*c = userCopy{}
	m.copies.Put(c)
	done.Carried(err)
}
