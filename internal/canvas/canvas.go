// Package canvas is what pages that draw share: a script with units, axes, zoom, pointer, keys
// and tooltips, a style for light and dark, and columns of numbers as a page carries them.
// Pages name the script's functions by the global canvas.
package canvas

import (
	"bytes"
	"compress/gzip"
	_ "embed" // the pages' parts
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
)

// Script is the script, to come before a page's own.
//
//go:embed canvas.js
var Script string

// Head defines the template "head", a page's beginning, of what has a Title and a CSS.
//
//go:embed head.html
var Head string

// Style is the style, to come before a page's own.
//
//go:embed canvas.css
var Style string

// Floats packs n numbers for the script's floats: in columns of bytes (all first bytes, all second ones, ...), which compress
// several times better than the numbers in a row.
func Floats(n int, at func(i int) float64) (string, error) {
	planes := make([]byte, 8*n)
	for i := range n {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], math.Float64bits(at(i)))
		for k, c := range b {
			planes[k*n+i] = c
		}
	}
	return pack(planes)
}

// JSON packs a value for the script's json.
func JSON(v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	return pack(text)
}

// pack is gzip and base64.
func pack(data []byte) (string, error) {
	var out bytes.Buffer
	zw, err := gzip.NewWriterLevel(&out, 4)
	if err != nil {
		return "", err
	}
	if _, err := zw.Write(data); err != nil {
		return "", err
	}
	if err := zw.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}
