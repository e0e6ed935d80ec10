package scenario

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/goccy/go-yaml/ast"

	"godwit/internal/flat"
	"godwit/internal/input"
	"godwit/internal/yaml"
)

// content is content for a buffer or a write: a file's, a pattern, random bytes
// or a ramp.
type content struct {
	what     string       // for people
	file     *fileContent // nil for what is no file's
	size     uint64       // of a file, or of pointers; 0 is as much as is wanted
	pointers []pointer
	fill     func(dst []byte) // nil for pointers; dst holds zeros
}

// fileContent is what a file holds.
type fileContent struct {
	data []byte
	sum  func() [32]byte // SHA-256, computed where it is asked for
}

// pointer is a place in shared virtual memory whose address is content.
type pointer struct {
	buffer int // index into Buffers; -1 is the null pointer
	at     uint64
}

// String says what it is.
func (d *content) String() string { return d.what }

// Bytes returns size bytes; a file that is shorter is followed by zeros. at are
// the addresses of shared virtual memory, by index into Buffers.
func (d *content) Bytes(size uint64, at []uint64) []byte {
	out := make([]byte, size)
	d.put(out, at)
	return out
}

// put is Bytes into dst, which holds zeros.
func (d *content) put(dst []byte, at []uint64) {
	if d.fill != nil {
		d.fill(dst)
	}
	for i, p := range d.pointers {
		if p.buffer >= 0 {
			binary.LittleEndian.PutUint64(dst[8*i:], at[p.buffer]+p.at)
		}
	}
}

// dataKeys are the ways to give content, of which a mapping has at most one.
var dataKeys = []string{"file", "input", "fill", "random", "ramp", "pointers"}

var contentKeys = strings.Join(dataKeys, ", ")

// data reads the content given in m, or nil.
func (l *loader) data(m *mapping) *content {
	var out *content
	found := ""
	for _, key := range dataKeys {
		n := m.get(key)
		if n == nil {
			continue
		}
		if found != "" {
			l.errorf(n, "%s: %s beside %s: content is given once", m.What, key, found)
			continue
		}
		found = key
		out = l.dataOf(key, n, m.What+": "+key)
	}
	return out
}

func (l *loader) dataOf(key string, n ast.Node, what string) *content {
	switch key {
	case "file":
		path := l.text(n, what)
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(l.file), path)
		}
		return l.fileData(n, what, path, "file "+filepath.Base(path))
	case "input":
		name := l.text(n, what)
		path, ok := l.inputs[name]
		if !ok {
			l.errorf(n, "%s: no input is named %q; declared under inputs: %s", what, name, l.inputsBeside(name))
			return nil
		}
		if path == "" {
			l.faults++ // reported where it is declared
			return nil
		}
		return l.fileData(n, what, path, "input "+name)
	case "fill":
		p, text := l.pattern(n, what)
		if p == nil {
			return nil
		}
		return &content{what: "a fill of " + text, fill: func(dst []byte) { flat.Repeat(dst, p) }}
	case "random":
		seed := l.number(n, what)
		return &content{what: fmt.Sprintf("random bytes of seed %d", seed), fill: func(dst []byte) {
			var key [32]byte
			copy(key[:], strconv.FormatInt(seed, 10))
			_, _ = rand.NewChaCha8(key).Read(dst) // never fails
		}}
	}
	if key == "pointers" {
		return l.pointersData(n, what)
	}
	return l.rampData(n, what)
}

// rampData is 0, 1, 2, ... in a type; past the type's end it starts again.
func (l *loader) rampData(n ast.Node, what string) *content {
	kind := l.text(n, what)
	if _, err := encode(kind, "0"); err != nil {
		l.errorf(n, "%s: %v", what, err)
		return nil
	}
	size := types[kind]
	period := uint64(math.MaxUint64) // of the values; 0 in the type that has them all
	if bits := 8 * size; kind != "float" && kind != "double" && size < 8 {
		if kind[0] != 'u' {
			bits--
		}
		period = 1 << bits
	}
	return &content{what: "a ramp of " + kind, fill: func(dst []byte) {
		var word [8]byte
		for i, at := uint64(0), 0; at < len(dst); i, at = i+1, at+size {
			v := i % period
			switch kind {
			case "float":
				v = uint64(math.Float32bits(float32(v)))
			case "double":
				v = math.Float64bits(float64(v))
			}
			binary.LittleEndian.PutUint64(word[:], v)
			copy(dst[at:], word[:size])
		}
	}}
}

// pointersData reads a list of places in shared virtual memory: a name, {svm:
// NAME, at: BYTES} or null. Their addresses are the content.
func (l *loader) pointersData(n ast.Node, what string) *content {
	d := &content{}
	var names []string
	for _, n := range l.list(n) {
		p, name, ok := l.pointerAt(n, what)
		if !ok {
			return nil
		}
		d.pointers = append(d.pointers, p)
		names = append(names, name)
	}
	if len(names) == 0 {
		l.errorf(n, "%s: want at least one pointer", what)
		return nil
	}
	d.size = 8 * uint64(len(names))
	d.what = "pointers to " + strings.Join(names, ", ")
	if len(names) > 4 {
		d.what = count(len(names), "pointer", "pointers")
	}
	return d
}

// pointerAt reads one pointer. Only its root's index and an offset are known
// before the run.
func (l *loader) pointerAt(n ast.Node, what string) (p pointer, text string, ok bool) {
	v := l.plain(n)
	if yaml.Kind(v) == "nothing" {
		return pointer{buffer: -1}, "null", true
	}
	place, at := place{}, uint64(0)
	before := l.faults
	if _, isMap := v.(*ast.MappingNode); !isMap {
		place = l.placeNamed(n, what)
	} else {
		m := l.mapping(n, what, "pointer")
		place, at = l.pointerPlace(m, "svm")
	}
	if l.faults > before || place.Name == "" {
		return p, "", false
	}
	if !l.isSVM(place) {
		l.errorf(n, "%s: %s is a buffer, and has no address: want shared virtual memory; there is %s", what, place.Name, l.svmNames())
		return p, "", false
	}
	text = place.Name
	if at > 0 {
		text += fmt.Sprintf("+%d", at)
	}
	return pointer{place.Buffer, at}, text, true
}

// pointerPlace reads the block named under key, and at: how far the pointer
// points into it.
func (l *loader) pointerPlace(m *mapping, key string) (of place, at uint64) {
	of = l.placeNamed(m.get(key), m.What)
	if at = l.natural(m, "at", 0, 0); of.Name != "" && at >= of.Range.Size() && of.Range.Size() > 0 {
		l.errorf(m.get("at"), "%s: at is %d: %s has only %d bytes", m.What, at, of.Name, of.Range.Size())
	}
	return of, at
}

// fileData reads a file's content.
func (l *loader) fileData(n ast.Node, what, path, name string) *content {
	f, ok := l.files[path]
	if !ok {
		var content []byte
		var err error
		if content, ok = l.given.Files[path]; !ok {
			content, err = input.ReadFile(l.work.ctx, path, l.given.Memory-l.held)
		}
		if err != nil {
			l.unread(n, what, err)
			return nil
		}
		l.hold(n, what, uint64(len(content)))
		f = &fileContent{data: content, sum: sync.OnceValue(func() [32]byte { return sha256.Sum256(content) })}
		l.files[path] = f
	}
	if len(f.data) == 0 {
		l.errorf(n, "%s: %s is empty: a buffer holds at least one byte", what, path)
		return nil
	}
	return &content{what: name, file: f, size: uint64(len(f.data)), fill: func(dst []byte) { copy(dst, f.data) }}
}

// pattern reads the bytes of a fill: a byte, a typed number or hex digits.
func (l *loader) pattern(n ast.Node, what string) (value []byte, text string) {
	v := l.plain(n)
	if _, ok := v.(*ast.MappingNode); !ok {
		b := l.number(n, what)
		if b < 0 || b > math.MaxUint8 {
			l.errorf(n, "%s: %d is not a byte; for other types write {int: %d}, {float: ...} or {hex: ...}", what, b, b)
			return nil, ""
		}
		return []byte{byte(b)}, strconv.FormatInt(b, 10)
	}
	m := l.mapping(n, what, "pattern")
	if m.Has("hex") {
		if len(m.Keys) != 1 {
			return nil, ""
		}
		out, err := hex.DecodeString(strings.ReplaceAll(m.text("hex"), " ", ""))
		if size := len(out); err != nil || size == 0 || size > 128 || size&(size-1) != 0 {
			l.errorf(n, "%s: hex: want pairs of hex digits for 1, 2, 4, ... or 128 bytes", what)
			return nil, ""
		}
		return out, hex.EncodeToString(out) + " (hex)"
	}
	kind := ""
	if len(m.Keys) == 1 {
		kind = " (" + yaml.Name(m.Keys[0]) + ")"
	}
	value, text = l.typed(m)
	return value, text + kind
}

// types are the OpenCL C scalar types, with their sizes in bytes.
var types = map[string]int{
	"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4,
	"long": 8, "ulong": 8, "float": 4, "double": 8,
}

// typed reads {TYPE: NUMBER}.
func (l *loader) typed(m *mapping) (value []byte, text string) {
	for kind := range types {
		if !m.Has(kind) {
			continue
		}
		n := m.get(kind)
		if len(m.Keys) != 1 {
			return nil, ""
		}
		return l.numberOf(kind, n, m.What, m.text(kind))
	}
	return nil, "" // it has no shape
}

// numberOf reads text, which stands at n, as a number of an OpenCL C type.
func (l *loader) numberOf(kind string, n ast.Node, what, text string) ([]byte, string) {
	if kind != "float" && kind != "double" {
		text = strconv.FormatInt(l.number(n, what), 10)
	} else if _, err := strconv.ParseFloat(text, 64); err != nil { // else it is shown as it is written
		text = strconv.FormatFloat(l.real(n, what), 'g', -1, 64)
	}
	value, err := encode(kind, text)
	if err != nil {
		l.errorf(n, "%s: %v", what, err)
	}
	return value, text
}

// encode gives the little-endian bytes of a number of an OpenCL C type.
func encode(kind, text string) ([]byte, error) {
	size, ok := types[kind]
	if !ok {
		return nil, fmt.Errorf("%q is not a type; want char, short, int, long, the same with u before, float or double", kind)
	}
	var word uint64
	var err error
	switch {
	case kind == "float" || kind == "double":
		var f float64
		f, err = strconv.ParseFloat(text, 8*size)
		if word = math.Float64bits(f); size == 4 {
			word = uint64(math.Float32bits(float32(f)))
		}
	case kind[0] == 'u':
		word, err = strconv.ParseUint(text, 10, 8*size)
	default:
		var i int64
		i, err = strconv.ParseInt(text, 10, 8*size)
		word = uint64(i)
	}
	if err != nil {
		return nil, fmt.Errorf("%s does not fit the type %s", text, kind)
	}
	out := make([]byte, size)
	for i := range out {
		out[i] = byte(word >> (8 * i))
	}
	return out, nil
}
