package network

// Live is how many flows have not ended.
func (n *Network) Live() int { return len(n.queue.Items) }

// Rate is how many bytes a second a flow gets now, rounded down; 0 before its first.
func (n *Network) Rate(id ID) uint64 {
	n.solve()
	return n.flows[id].rate >> fraction
}
