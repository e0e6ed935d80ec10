package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"godwit/devices"
	"godwit/eviction"
	"godwit/examples"
	"godwit/lib/pool"
	"godwit/study/alloc/formats"
	"godwit/study/alloc/fuzz"
	"godwit/study/alloc/replay"
	"godwit/study/machine"
)

// completed are the flags whose values a shell can complete, by name, in whichever verb
// they are. Those that take lists complete what follows the last comma.
var completed = map[string]func(verb string) []string{
	"driver":    func(string) []string { return devices.Drivers() },
	"strategy":  func(string) []string { return append(strategyNames(), replay.OfflineName, "all") },
	"against":   func(string) []string { return strategyNames() },
	"objective": func(string) []string { return textsOf(fuzz.Objectives()) },
	"pool":      func(string) []string { return []string{pool.PowerOfTwo.String(), pool.LeadingBits.String()} },
	"to": func(string) []string {
		return textsOf([]formats.AllocFormat{formats.FormatGodwit, formats.FormatMiniMalloc, formats.FormatRMM, formats.FormatPyTorch})
	},
	"hints":   func(string) []string { return []string{"none", "true", "1"} },
	"type":    func(string) []string { return []string{"cpu", "gpu", "accelerator"} },
	"policy":  func(string) []string { return eviction.Policies() },
	"carve":   func(string) []string { return []string{"on", "off"} },
	"machine": func(string) []string { return machine.Names() },
	"example": func(verb string) []string {
		if verb == "replay" {
			return examples.Names(examples.Trace)
		}
		return examples.Names(examples.Scenario)
	},
}

func strategyNames() (names []string) {
	for _, s := range replay.Subjects() {
		names = append(names, s.Name())
	}
	return names
}

func textsOf[T ~string](values []T) (out []string) {
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

// completeValues tells shells the values of flags and arguments, for cmd and the
// commands below it.
func completeValues(cmd *cobra.Command) {
	for name, values := range completed {
		f := cmd.Flags().Lookup(name)
		if f == nil {
			continue
		}
		list := f.Value.Type() == "stringSlice"
		// The only error is a flag that is not there, or has a completion already.
		_ = cmd.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			head := ""
			if i := strings.LastIndexByte(begun, ','); list && i >= 0 {
				head = begun[:i+1]
			}
			var out []string
			for _, v := range values(cmd.Name()) {
				out = append(out, head+v)
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		})
	}
	if cmd.ValidArgsFunction == nil {
		switch cmd.Name() {
		case "run", "sweep", "compare", "predict":
			cmd.ValidArgsFunction = filesWith("yaml", "yml")
		case "machines":
			cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return machine.Names(), cobra.ShellCompDirectiveDefault
			}
		case "devices", "version", "examples":
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	}
	for _, c := range cmd.Commands() {
		completeValues(c)
	}
}

// completeParameters completes --set with the parameters of the scenario that the line
// names, and after NAME= with the values that it may have.
func completeParameters(cmd *cobra.Command, f *scenarioFlags) {
	_ = cmd.RegisterFlagCompletionFunc("set", func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		none := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		file := ""
		if len(args) > 0 {
			file = args[0]
		}
		if file == "-" || file == "" && f.example == "" {
			return nil, none
		}
		d, err := f.describe(context.Background(), file)
		if err != nil {
			return nil, none
		}
		var out []string
		for _, p := range d.Params {
			if !strings.HasPrefix(begun, p.Name+"=") {
				out = append(out, p.Name+"=\t"+p.About)
				continue
			}
			for _, v := range p.Values {
				out = append(out, p.Name+"="+v)
			}
		}
		return out, none
	})
}

// filesWith completes files of some extensions.
func filesWith(extensions ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}
