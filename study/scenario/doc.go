// Package scenario reads, runs, explains and verifies scenarios: YAML files
// that say which devices there are, which buffers, and which commands run on
// them.
//
// # The language
//
// A scenario is one YAML mapping:
//
//	name, about   what it shows
//	kind          what godwit predict counts it among
//	params        what is set from outside: {cells: {type: integer, default: 4096}}
//	include       files with devices and links that scenarios share
//	let           names for values: {bytes: cells * 4}
//	inputs        files given on the command line: {text: {default: FILE}}
//	policy        which blocks go first where a memory is short: cost, lru, belady, none
//	whole-below   buffers of fewer bytes are stored whole, of others what commands reach
//	devices       name, driver, count, memory, local, params; for opencl also platform, device
//	links         between: [A, B] (or from, to), way: direct|ring, latency, bandwidth
//	buffers       name, size, count, and content: file, input, fill, random or ramp
//	svm           blocks of shared virtual memory, and buffers over them
//	sub-buffers   name, of, and a place: offset and size, part: i/n, or parts: n
//	kernels       without code, where devices keep no bytes: {name: stencil9, args: [read, write], time: 2 us}
//	events        user events, which commands set
//	queues        name, device, order: in|out; every device, and "host", also
//	              has an in-order queue of its own name
//	commands      see below, in the order in which they are enqueued
//	failures      commands that fail on a machine, or devices at a time of its clock
//	expect        what must hold at the end
//
// Commands are write, read, copy, fill, launch and migrate; map, host-read,
// host-write and unmap; alloc and free, of shared virtual memory; set, of user
// events; barrier, marker and repeat. Each of a queue may have an id, a queue and
// after (ids it waits for); docs/scenarios.md has all keys. A number
// may be written as an expression over sizes (64 KiB), names of params and let, the
// variables of enclosing repeats and size(BUFFER); words may contain such
// expressions in braces, as in "part{i}".
//
// # Errors
//
// What is wrong with a scenario is reported with file, line and the rule it
// breaks, all of it at once: see [Errors].
//
// # Verification
//
// A run is verified against a plain run of the same commands on one device
// with one flat memory, in the order of the file: every byte that a command
// reads, and at the end every byte of every buffer, must be the same. The
// bytes moved stand beside lower bounds: package internal/ledger's, as if no memory had
// a limit, and package study/bound's of what moves since memories are short.
package scenario
