package network

// What tests from outside name.
type (
	FlowID = flowID
	Ended  = ended
	Usage  = usage
	Work   = work
)

const MaxBytes = maxBytes

// Live is how many flows have not ended.
func (n *Network) Live() int { return len(n.flows) - len(n.free) }

// Rate is how many bytes a second a flow gets now, rounded down; 0 before its first.
func (n *Network) Rate(id flowID) uint64 { return n.Units(id) >> fraction }

// Units is its rate in units.
func (n *Network) Units(id flowID) uint64 {
	n.solve()
	if k := n.flows[id].class; k != none {
		return n.classes[k].rate
	}
	return 0
}
