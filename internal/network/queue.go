package network

// The flows by when something happens to them: a binary heap whose order among
// equal times is that of their starts. Each flow knows its slot.

func (n *Network) before(a, b ID) bool {
	x, y := &n.flows[a], &n.flows[b]
	return x.at < y.at || x.at == y.at && x.order < y.order
}

func (n *Network) put(slot int, id ID) {
	n.queue[slot] = id
	n.flows[id].slot = slot
}

func (n *Network) push(id ID) {
	n.queue = append(n.queue, id)
	n.flows[id].slot = len(n.queue) - 1
	n.rise(len(n.queue) - 1)
}

// drop removes what is at a slot.
func (n *Network) drop(slot int) {
	last := len(n.queue) - 1
	moved := n.queue[last]
	n.queue = n.queue[:last]
	if slot < last {
		n.put(slot, moved)
		n.fix(slot)
	}
}

// fix moves what is at a slot, whose time has changed, to where it belongs.
func (n *Network) fix(slot int) {
	if !n.rise(slot) {
		n.sink(slot)
	}
}

func (n *Network) rise(slot int) (moved bool) {
	id := n.queue[slot]
	for slot > 0 {
		up := (slot - 1) / 2
		if !n.before(id, n.queue[up]) {
			break
		}
		n.put(slot, n.queue[up])
		slot, moved = up, true
	}
	n.put(slot, id)
	return moved
}

func (n *Network) sink(slot int) {
	id := n.queue[slot]
	for {
		down := 2*slot + 1
		if down >= len(n.queue) {
			break
		}
		if down+1 < len(n.queue) && n.before(n.queue[down+1], n.queue[down]) {
			down++
		}
		if !n.before(n.queue[down], id) {
			break
		}
		n.put(slot, n.queue[down])
		slot = down
	}
	n.put(slot, id)
}
