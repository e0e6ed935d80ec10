package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"godwit/examples"
	"godwit/internal/suggest"
	"godwit/study/alloc/formats"
	"godwit/study/scenario"
)

// exampleInfo is what godwit examples says of one.
type exampleInfo struct {
	Name  string `json:"name" show:"example"`
	Kind  string `json:"kind" show:"kind"` // scenario or trace
	About string `json:"about" show:"shows"`
	File  string `json:"file"`
	Bytes int    `json:"bytes"`
}

// examplesOutput is the JSON form of godwit examples.
type examplesOutput struct {
	Examples []exampleInfo `json:"examples"`
}

func newExamples() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "examples",
		Short: "List the built-in examples, or write them out to be changed",
		Example: `  godwit examples
  godwit run --example overlap
  godwit replay --example resnet50
  godwit examples write mine overlap    # mine/overlap.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noSuchVerb(cmd, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := listExamples(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), examplesOutput{list})
			}
			show(cmd.OutOrStdout(), 3, 0, list)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object; sizes are in bytes")
	var all []builtIn
	for _, kind := range []string{examples.Scenario, examples.Trace} {
		for _, name := range examples.Names(kind) {
			file, content, _ := examples.Read(name, kind)
			all = append(all, builtIn{name, file, content})
		}
	}
	cmd.AddCommand(newWrite("examples", all))
	return cmd
}

func listExamples(ctx context.Context) (list []exampleInfo, err error) {
	for _, name := range examples.Names(examples.Scenario) {
		file, content, _ := examples.Read(name, examples.Scenario)
		s, err := scenario.Parse(ctx, file, content, scenario.Options{Files: map[string][]byte{file: content}})
		if err != nil {
			return nil, err
		}
		list = append(list, exampleInfo{name, "scenario", strings.TrimSpace(s.About), file, len(content)})
	}
	for _, name := range examples.Names(examples.Trace) {
		file, all, err := exampleTrace(ctx, name)
		if err != nil {
			return nil, err
		}
		_, content, _ := examples.Read(name, examples.Trace)
		list = append(list, exampleInfo{name, "trace", fmt.Sprintf("%d allocations and frees of a training, to replay", len(all[0].Events)), file, len(content)})
	}
	return list, nil
}

// findExample is an example's file and content. The error for a name that there is
// not lists those there are.
func findExample(name, kind string) (file string, content []byte, err error) {
	file, content, ok := examples.Read(name, kind)
	if !ok {
		names := examples.Names(kind)
		return "", nil, fmt.Errorf("--example %q: there is none of this name; there are %s%s", name, strings.Join(names, ", "), suggest.For(name, names))
	}
	return file, content, nil
}

// orExample ends the error about a file that is not there, and is called like an example.
func orExample(err error, file, kind string) error {
	name := strings.TrimSuffix(filepath.Base(file), kind)
	if errors.Is(err, fs.ErrNotExist) && slices.Contains(examples.Names(kind), name) {
		return fmt.Errorf("%w; did you mean --example %s?", err, name)
	}
	return err
}

// exampleTrace reads a built-in allocation trace.
func exampleTrace(ctx context.Context, name string) (file string, all []*formats.Allocs, err error) {
	file, content, err := findExample(name, examples.Trace)
	if err != nil {
		return "", nil, err
	}
	if all, err = formats.ReadAllocs(ctx, bytes.NewReader(content), file); err != nil {
		return "", nil, err
	}
	for _, t := range all {
		t.Name = strings.TrimSuffix(file, examples.Trace)
	}
	return file, all, nil
}
