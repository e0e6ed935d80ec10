package scenario

import (
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Data is content for a buffer or a write: a file's, a pattern, random bytes
// or a ramp.
type Data struct {
	what string // for people
	size uint64 // of a file; 0 is as much as is wanted
	fill func(dst []byte)
}

// String says what it is.
func (d *Data) String() string { return d.what }

// Bytes returns size bytes; a file that is shorter is followed by zeros.
func (d *Data) Bytes(size uint64) []byte {
	out := make([]byte, size)
	d.fill(out)
	return out
}

// dataKeys are the ways to give content, of which a mapping has at most one.
var dataKeys = []string{"file", "input", "fill", "random", "ramp"}

// data reads the content given in m, or nil.
func (l *loader) data(m *mapping, sc *scope) *Data {
	var out *Data
	found := ""
	for _, key := range dataKeys {
		n := m.get(key)
		if n == nil {
			continue
		}
		if found != "" {
			l.errorf(n, "%s: %s beside %s: content is given once", m.what, key, found)
			continue
		}
		found = key
		out = l.dataOf(key, n, m.what+": "+key, sc)
	}
	return out
}

func (l *loader) dataOf(key string, n ast.Node, what string, sc *scope) *Data {
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
			l.errorf(n, "%s: no input is named %q; declared under inputs: %s", what, name, l.inputNames())
			return nil
		}
		if path == "" {
			return nil // reported where it is declared
		}
		return l.fileData(n, what, path, "input "+name)
	case "fill":
		p, text := l.pattern(n, what, sc)
		if p == nil {
			return nil
		}
		return &Data{what: "a fill of " + text, fill: func(dst []byte) {
			for i := 0; i < len(dst); i += len(p) {
				copy(dst[i:], p)
			}
		}}
	case "random":
		seed := l.number(n, what, sc)
		return &Data{what: fmt.Sprintf("random bytes of seed %d", seed), fill: func(dst []byte) {
			var key [32]byte
			copy(key[:], strconv.FormatInt(seed, 10))
			_, _ = rand.NewChaCha8(key).Read(dst) // never fails
		}}
	}
	kind := l.text(n, what)
	if _, err := encode(kind, "0"); err != nil {
		l.errorf(n, "%s: %v", what, err)
		return nil
	}
	return &Data{what: "a ramp of " + kind, fill: func(dst []byte) {
		for i, at := 0, 0; at < len(dst); i++ {
			v, err := encode(kind, strconv.Itoa(i))
			if err != nil { // past the type's end: start again
				i = 0
				v, _ = encode(kind, "0")
			}
			at += copy(dst[at:], v)
		}
	}}
}

// fileData reads a file's content.
func (l *loader) fileData(n ast.Node, what, path, name string) *Data {
	content, err := os.ReadFile(path)
	if err != nil {
		l.errorf(n, "%s: %v", what, err)
		return nil
	}
	if len(content) == 0 {
		l.errorf(n, "%s: %s is empty: a buffer holds at least one byte", what, path)
		return nil
	}
	return &Data{what: name, size: uint64(len(content)), fill: func(dst []byte) { copy(dst, content) }}
}

// pattern reads the bytes of a fill: a byte, a typed number or hex digits.
func (l *loader) pattern(n ast.Node, what string, sc *scope) (value []byte, text string) {
	v := l.plain(n)
	if _, ok := v.(*ast.MappingNode); !ok {
		b := l.number(n, what, sc)
		if b < 0 || b > math.MaxUint8 {
			l.errorf(n, "%s: %d is not a byte; for other types write {int: %d}, {float: ...} or {hex: ...}", what, b, b)
			return nil, ""
		}
		return []byte{byte(b)}, strconv.FormatInt(b, 10)
	}
	m := l.mapping(n, what)
	if m.has("hex") {
		defer m.done()
		out, err := hex.DecodeString(strings.ReplaceAll(m.text("hex"), " ", ""))
		if size := len(out); err != nil || size == 0 || size > 128 || size&(size-1) != 0 {
			l.errorf(n, "%s: hex: want pairs of hex digits for 1, 2, 4, ... or 128 bytes", what)
			return nil, ""
		}
		return out, hex.EncodeToString(out) + " (hex)"
	}
	kind := ""
	if len(m.keys) == 1 {
		kind = " (" + keyName(m.keys[0]) + ")"
	}
	value, text = l.typed(m, sc)
	return value, text + kind
}

// types are the OpenCL C scalar types, with their sizes in bytes.
var types = map[string]int{
	"char": 1, "uchar": 1, "short": 2, "ushort": 2, "int": 4, "uint": 4,
	"long": 8, "ulong": 8, "float": 4, "double": 8,
}

// typed reads {TYPE: NUMBER}.
func (l *loader) typed(m *mapping, sc *scope) (value []byte, text string) {
	for kind := range types {
		if !m.has(kind) {
			continue
		}
		n := m.get(kind)
		m.done()
		text = m.text(kind)
		if kind != "float" && kind != "double" {
			text = strconv.FormatInt(l.number(n, m.what, sc), 10)
		} else if _, err := strconv.ParseFloat(text, 64); err != nil {
			text = strconv.FormatInt(l.number(n, m.what, sc), 10)
		}
		value, err := encode(kind, text)
		if err != nil {
			l.errorf(n, "%s: %v", m.what, err)
		}
		return value, text
	}
	l.errorf(m.node, "%s: want a typed number such as {int: 3} or {float: 0.5}", m.what)
	return nil, ""
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
