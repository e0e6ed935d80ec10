package scenario

import (
	"maps"
	"slices"

	"godwit/internal/expr"
)

// Keys that several shapes have.
var (
	keyName_   = key{"name", aWord, true, "letters, digits and _, beginning with no digit"}
	keyCount   = key{"count", aNumber, false, "that many, named name0, name1, …"}
	keyOffset  = key{"offset", aNumber, false, "bytes from the start"}
	keySize    = key{"size", aNumber, false, "bytes"}
	keyAlign   = key{"align", aNumber, false, "bytes"}
	keyAbout   = key{"about", aWord, false, "a line of help"}
	keyAccess  = key{"access", words("read-write", "read", "write"), false, "what the launch really does there; write promises every byte"}
	keysOfData = []key{
		{"file", aWord, false, "content: a file's, relative to the scenario"},
		{"input", aWord, false, "content: that of the file of an input"},
		{"fill", aNumber.or(object("pattern")), false, "content: a byte or a pattern, again and again"},
		{"random", aNumber, false, "content: random bytes of this seed"},
		{"ramp", words(slices.Sorted(maps.Keys(types))...), false, "content: 0, 1, 2, … of this type"},
		{"pointers", listOf(aWord.or(object("pointer")).or(nothing)), false, "content: addresses of shared virtual memory"},
	}
	keysOfParts = []key{
		{"parts", aNumber, false, "cut into so many, named name0, name1, …"},
		{"align", aNumber, false, "cuts are at multiples of so many bytes; default 128"},
	}
	keysOfQueued = []key{
		{"queue", aWord, false, "needed where there are several devices"},
		{"id", aWord, false, "a name for after"},
		{"after", someWords, false, "ids of commands above, and user events, that must have ended"},
		{"callbacks", listOf(words("submitted", "running", "complete")), false, "states that the run is told of"},
		{"profile", aFlag, false, "show when it was submitted, started and ended"},
	}
	keysOfLink = []key{
		{"way", words("direct", "ring"), false, "one copy, or pieces through staging memory; default direct"},
		{"latency", aWord, false, "such as 5 us"},
		{"bandwidth", aWord, false, "bytes a second, such as 32 GB/s"},
	}
	keysOfPlace = []key{keyOffset, keySize}
	keyBlocking = key{"blocking", aFlag, false, "the host waits"}
	keysOfRows  = []key{
		{"size", aNumber, true, "bytes of a row"},
		{"rows", aNumber, false, "how many"},
		{"slices", aNumber, false, "how many"},
	}
)

// flagsKey is the key flags with these names.
func flagsKey(names flagNames, need bool) key {
	return key{"flags", listOf(words(names.list()...)), need, "OpenCL's"}
}

// box are the keys that say where rows lie; prefix is that of their names.
func box(prefix, where string) []key {
	return []key{
		{prefix + "offset", aNumber, false, "bytes to the first byte " + where},
		{prefix + "origin", listOf(aNumber), false, "[bytes, rows, slices] to the first byte " + where},
		{prefix + "pitch", aNumber, false, "bytes from one row to the next " + where},
		{prefix + "slice-pitch", aNumber, false, "bytes from one slice to the next " + where},
	}
}

// command is the shape of a command of a queue.
func commandShape(name, what string, keys ...[]key) *shape {
	return &shape{name: name, what: what, keys: slices.Concat(append(keys, keysOfQueued)...)}
}

// rows makes it a command on rows.
func rows(s *shape) *shape {
	s.some = []string{"rows", "slices"}
	return s
}

// of is the key that says what a command is.
func of(kind string, f form, what string) []key { return []key{{kind, f, true, what}} }

// declaredShapes are all shapes of the language.
func declaredShapes() []*shape {
	return append(commandShapes(), []*shape{
		{name: "scenario", what: "scenario", keys: []key{
			{"name", aWord, false, "default: the file's name"},
			{"about", aWord, false, "what it shows"},
			{"kind", aWord, false, "what godwit predict counts it among"},
			{"inputs", object("inputs"), false, "files from --input NAME=FILE"},
			{"params", object("params"), false, "values from --set NAME=VALUE"},
			{"include", someWords, false, "files with devices and links, relative to this one"},
			{"let", object("let"), false, "values with names, each of which may use those before it"},
			{"policy", aWord, false, "which blocks go first where a memory is short: cost, lru, belady, none"},
			{"whole-below", aNumber, false, "buffers of fewer bytes are stored whole; of others, what commands reach"},
			{"devices", listOf(object("device")), false, "of which drivers, with how much memory"},
			{"links", listOf(object("link")), false, "ways from one memory to another"},
			{"svm", listOf(object("svm")), false, "shared virtual memory, allocated before the first command"},
			{"buffers", listOf(object("buffer")), false, "with their content"},
			{"sub-buffers", listOf(object("sub-buffer")), false, "ranges of buffers"},
			{"queues", listOf(object("queue")), false, "every device, and host, has an in-order queue of its own name without being asked"},
			{"events", someWords, false, "names of user events"},
			{"kernels", listOf(object("kernel")), false, "of the scenario's own, without code: they run where devices keep no bytes"},
			{"commands", listOf(object("command")), true, "in the order in which they are enqueued"},
			{"failures", listOf(object("failure")), false, "what fails on a machine (--machine)"},
			{"expect", listOf(object("expect")), false, "what must hold at the end"},
		}},
		{name: "failure", what: "failure", pick: pickFailure, variants: []string{"failure of a command", "failure of a device"}},
		{name: "failure of a command", what: "failure", keys: []key{{"command", aWord, true, "an id"}}},
		{name: "failure of a device", what: "failure", keys: []key{{"device", aWord, true, "of what is under way there"}, {"at", aWord, true, "a time of the machine's, such as 20 us"}}},
		{name: "included", what: "included file", keys: []key{
			keyAbout,
			{"params", object("params"), false, "values from --set NAME=VALUE"},
			{"let", object("let"), false, "values with names"},
			{"devices", listOf(object("device")), false, "of which drivers, with how much memory"},
			{"links", listOf(object("link")), false, "ways from one memory to another"},
		}},
		{name: "inputs", what: "inputs", rest: formOf(object("input"))},
		{name: "input", what: "input", keys: []key{keyAbout, {"default", aWord, false, "a file, relative to the scenario"}}},
		{name: "params", what: "params", rest: formOf(object("param"))},
		{name: "param", what: "param", keys: []key{
			{"type", words(append(slices.Clone(expr.ElementTypes), string(expr.ListType))...), true, "size is in bytes"},
			{"of", words(expr.ElementTypes...), false, "of a List: the type of its elements; default integer"},
			{"default", aWord.or(listOf(aWord)), false, "without one, it has to be set"},
			{"min", aWord, false, "the least that it, or an element, may be"},
			{"max", aWord, false, "the most that it, or an element, may be"},
			{"values", someWords, false, "all that it, or an element, may be"},
			keyAbout,
		}},
		{name: "let", what: "let", rest: formOf(aValue)},
		{name: "device", what: "device", keys: []key{
			keyName_, {"driver", aWord, true, "cpu, tce, null, opencl or one that the program has registered"},
			{"memory", aNumber, false, "bytes that it holds; of a real device at most"},
			{"local", aNumber, false, "bytes of local memory"}, keyCount,
			{"resources", listOf(words(layerKinds...).or(object("layer"))), false, "layers over its memory, from the caller down"},
			{"platform", aWord, false, "of opencl: an index or a part of the name"},
			{"device", aWord, false, "of opencl: an index or a part of the name"},
			{"type", aWord, false, "of opencl: cpu, gpu, accelerator"},
			{"params", object("driver params"), false, "passed to the driver"},
		}},
		{name: "driver params", what: "params", rest: formOf(aWord)},
		{name: "layer", what: "resources", one: true, keys: []key{
			{"limit", listOf(aNumber), false, "bytes"}, {"bins", listOf(aNumber), false, "bytes of the slots, ascending"}, {"pool", listOf(aNumber), false, "bytes of a slab"},
		}},
		{name: "link", what: "link", variants: []string{"link both ways", "link one way"}, pick: func(m *mapping) string {
			if m.Has("between") {
				return "link both ways"
			}
			return "link one way"
		}},
		{name: "link both ways", what: "link", keys: append([]key{{"between", listOf(aWord), true, "two devices, or host"}}, keysOfLink...)},
		{name: "link one way", what: "link", keys: append([]key{{"from", aWord, true, "a device or host"}, {"to", aWord, true, "a device or host"}}, keysOfLink...)},
		{name: "svm", what: "svm", keys: []key{keyName_, keySize, keyAlign, flagsKey(svmFlags, false), keyCount}},
		{name: "buffer", what: "buffer", variants: []string{"plain buffer", "buffer over svm"}, pick: func(m *mapping) string {
			if m.Has("over") {
				return "buffer over svm"
			}
			return "plain buffer"
		}},
		{name: "plain buffer", what: "buffer", keys: slices.Concat([]key{
			keyName_, keySize, keyCount, flagsKey(bufferFlags, false),
			{"whole", aFlag, false, "devices store all of it or nothing, however large it is"},
			{"content_size", aWord, false, "the buffer that says how many bytes matter"},
		}, keysOfData, keysOfParts)},
		{name: "buffer over svm", what: "buffer", keys: []key{keyName_, {"over", aWord, true, "shared virtual memory"}, keyOffset, keySize, flagsKey(bufferFlags, false)}},
		{name: "sub-buffer", what: "sub-buffer", keys: slices.Concat([]key{
			keyName_, {"of", aWord, true, "a buffer"}, keyOffset, keySize, {"part", aWord, false, "i/n"}, flagsKey(bufferFlags, false),
		}, keysOfParts)},
		{name: "queue", what: "queue", keys: []key{keyName_, keyCount, {"device", aWord, true, "a device, or host"}, {"order", words("in", "out"), false, "default in"}, {"priority", words("low", "normal", "high"), false, "whose copies and commands go first; default normal"}, {"host", aWord, false, "that enqueues its commands, of a machine with several; default its device's"}}},
		{name: "kernel", what: "kernel", keys: []key{
			keyName_,
			{"args", listOf(words(argumentWords...)), false, "what it does with each, or a number's type"},
			{"time", aWord, false, "of a launch, such as 2 us + size0 / 1 MB * 5 us"},
			{"operations", aWord, false, "of a launch, in all; the machine's rate gives the time"},
			{"bytes", aWord, false, "of a launch, in all; the bandwidth of the machine's memory gives the time"},
		}},
		{name: "pattern", what: "pattern", one: true, keys: append(typeKeys(), key{"hex", aWord, false, "pairs of hex digits"})},
		{name: "typed number", what: "typed number", one: true, keys: typeKeys()},
		{name: "pointer", what: "pointer", keys: []key{{"svm", aWord, true, "shared virtual memory"}, {"at", aNumber, false, "bytes into it"}}},
		{name: "place", what: "place", keys: []key{{"buffer", aWord, true, "a buffer, or shared virtual memory"}, keyOffset, keySize}},
		{name: "reached", what: "svm", keys: []key{{"svm", aWord, true, "shared virtual memory that the kernel reaches"}, {"at", aNumber, false, "bytes into it"}, keyOffset, keySize, keyAccess}},
		{name: "argument", what: "argument", variants: []string{"buffer argument", "reached", "local argument", "typed number"}, pick: pickArgument},
		{name: "buffer argument", what: "argument", keys: []key{{"buffer", aWord, true, "a buffer or a sub-buffer"}, keyOffset, keySize, keyAccess}},
		{name: "local argument", what: "argument", keys: []key{{"local", aNumber, true, "bytes of local memory"}}},
		{name: "expect", what: "expect", pick: pickExpectation, variants: []string{"expect content", "expect moved", "expect capacity-percent", "expect copies", "expect only", "expect fails"}},
		{name: "expect content", what: "expect", keys: slices.Concat([]key{
			{"buffer", aWord, true, "what is compared"}, {"equals", words("reference"), false, "as after the run on one flat memory"}, {"sha256", aWord, false, "hex digits"},
		}, keysOfPlace, keysOfData)},
		{name: "expect moved", what: "expect", keys: []key{{"moved", aNumber, true, "bytes moved, or lower-bound"}}},
		{name: "expect capacity-percent", what: "expect", keys: []key{{"capacity-percent", aNumber, true, "of what had to move since memory was short, at most"}}},
		{name: "expect copies", what: "expect", keys: []key{{"copies", aNumber, true, "copies inserted"}}},
		{name: "expect only", what: "expect", keys: []key{{"only", listOf(aWord.or(object("place"))), true, "no copy lies outside these"}}},
		{name: "expect fails", what: "expect", keys: []key{{"fails", someWords, true, "ids of commands"}}},
	}...)
}

func formOf(f form) *form { return &f }

func typeKeys() (out []key) {
	for _, name := range slices.Sorted(maps.Keys(types)) {
		out = append(out, key{name, aNumber, false, "a number of OpenCL C's " + name})
	}
	return out
}

func pickArgument(m *mapping) string {
	switch {
	case m.Has("local"):
		return "local argument"
	case m.Has("svm"):
		return "reached"
	case m.Has("buffer"):
		return "buffer argument"
	}
	return "typed number"
}

func pickFailure(m *mapping) string {
	if m.Has("command") {
		return "failure of a command"
	}
	return "failure of a device"
}

// expectations are the keys that say what is expected.
var expectations = []string{"buffer", "moved", "capacity-percent", "copies", "only", "fails"}

func pickExpectation(m *mapping) string {
	switch found := m.among(expectations); {
	case len(found) != 1:
		return ""
	case found[0] == "buffer":
		return "expect content"
	default:
		return "expect " + found[0]
	}
}
