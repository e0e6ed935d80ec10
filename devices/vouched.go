//go:build !race

package devices

// Vouched is the Checked of commands that were tested when they were enqueued. Under the race
// detector it is false: there drivers test these commands, too, so that tests find what an enqueue lets through.
const Vouched = true
