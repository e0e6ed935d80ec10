package calibrate

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

func TestAnyNameOfAFileIsAMachines(t *testing.T) {
	for _, name := range []string{"here", "null", "true", "~", "12", "1e3", "a: b", "#x", "- x", `q"uote`, "", "ü"} {
		text := (&site{}).write(name, "", nil, &structure{}, nil, nil)
		first, _, _ := strings.Cut(text, "\n")
		var got struct{ Name any }
		if err := yaml.Unmarshal([]byte(first), &got); err != nil || got.Name != name {
			t.Errorf("%q: %s is read as %v: %v", name, first, got.Name, err)
		}
	}
}
