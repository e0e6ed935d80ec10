//go:build race

package devices

// Vouched is false, so that drivers test what the runtime has tested.
const Vouched = false
