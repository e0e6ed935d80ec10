package devices

// Group is one work-group of a launch of a Go kernel.
type Group struct{}
