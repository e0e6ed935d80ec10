package scenario

import (
	"encoding/hex"
	"encoding/json"
	"io"
)

// WriteExpanded writes the scenario as it is run: parameters in their places,
// repeats unrolled, includes part of it, contents of files by their SHA-256. What
// makes no difference to a run, names of files, lines and what the scenario says of
// itself, is left out; so two scenarios that are written alike are run alike. The
// form is JSON, a value a line, and may change with any version: it is for hashes
// and comparisons. It is written in pieces, since repeats make much of little.
func (s *Scenario) WriteExpanded(w io.Writer) error {
	head := *s
	head.Commands = nil
	out := json.NewEncoder(w)
	if err := out.Encode(&head); err != nil {
		return err
	}
	for i := range s.Commands {
		if err := out.Encode(&s.Commands[i]); err != nil {
			return err
		}
	}
	return nil
}

// MarshalJSON implements json.Marshaler: what the content is made of.
func (d *content) MarshalJSON() ([]byte, error) {
	var out struct {
		What     string   `json:",omitempty"`
		SHA256   string   `json:",omitempty"`
		Pointers [][2]int `json:",omitempty"`
	}
	switch {
	case d.file != nil:
		sum := d.file.sum()
		out.SHA256 = hex.EncodeToString(sum[:])
	case d.pointers != nil:
		for _, p := range d.pointers {
			out.Pointers = append(out.Pointers, [2]int{p.buffer, int(p.at)})
		}
	default:
		out.What = d.what
	}
	return json.Marshal(out)
}
