package machine

import (
	"embed"
	"fmt"
	"path"
	"strings"

	"godwit/internal/suggest"
	"godwit/internal/yaml"
	"godwit/mem"
)

//go:embed machines/*.yaml
var builtIn embed.FS

// Names are the machines that are built in, sorted.
func Names() (names []string) {
	files, err := builtIn.ReadDir("machines")
	if err != nil {
		panic(err) // it is embedded
	}
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f.Name(), ".yaml"))
	}
	return names
}

// File is a built-in machine's file.
func File(name string) (content []byte, ok bool) {
	content, err := builtIn.ReadFile(path.Join("machines", name+".yaml"))
	return content, err == nil
}

// Named is a built-in machine. It fails with mem.ErrInvalidValue where there is none of
// this name.
func Named(name string, opt Options) (*Machine, error) {
	content, ok := File(name)
	if !ok {
		return nil, fmt.Errorf("machine %q: there is none of this name; there are %s: %w", yaml.Short(name), suggest.Among(name, Names()), mem.ErrInvalidValue)
	}
	return Parse(name+".yaml", content, opt)
}
