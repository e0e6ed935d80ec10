package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"

	"godwit/mem"
	"godwit/study/scenario"
)

// Row is what a point has shown.
type Row struct {
	Point      string         `json:"point"`                          // the hash that it is known by
	Parameters map[string]any `json:"parameters"`                     // of the axes, by name: numbers where they are
	Times      string         `json:"times"`                          // whose clock times are of: "modelled", "measured" on this computer, or "" where there are none
	ElapsedNS  int64          `json:"elapsed_ns" show:"elapsed|span"` // from the first command to the end of the last
	*scenario.Digest
}

// valueOf is a parameter's value in a row: a number where the text is one.
func valueOf(text string) any {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) == nil && !dec.More() {
		if n, ok := v.(json.Number); ok {
			return n
		}
	}
	return text
}

// encode writes a row as a line of JSON.
func (r *Row) encode() ([]byte, error) { return json.Marshal(r) }

// decode reads a row.
func decode(line []byte) (*Row, error) {
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	r := &Row{}
	if err := dec.Decode(r); err != nil {
		return nil, fmt.Errorf("row: %w: %w", mem.ErrInvalidValue, err)
	}
	return r, nil
}
