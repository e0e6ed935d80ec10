package cli

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"godwit/cmd/godwit/internal/devicebench"
	"godwit/internal/icd/tracelog"
	"godwit/internal/suggest"
	"godwit/study/alloc/fuzz"
	"godwit/study/calibrate"
	"godwit/study/campaign"
	"godwit/study/compare"
	"godwit/study/scenario"
	"godwit/study/sweep"
)

// jsonOutputs are what verbs print with --json, by verb. Their schemas are made of
// these types and of the comments beside them by go test . -run Schemas -rewrite,
// which also writes docs/json.md.
var jsonOutputs = []struct {
	verb  string
	value any
}{
	{"run", scenario.Result{}},
	{"run --summary", scenario.Digest{}},
	{"sweep", sweep.Row{}},
	{"sweep merge", sweep.Row{}},
	{"campaign serve", sweep.Row{}},
	{"campaign fuzz", []*fuzz.Finding{}},
	{"campaign status", campaign.Status{}},
	{"compare", compare.Comparison{}},
	{"predict", predictOutput{}},
	{"exec", tracelog.Summary{}},
	{"devices", devicesOutput{}},
	{"examples", examplesOutput{}},
	{"machines", machinesOutput{}},
	{"machines NAME", machineInfo{}},
	{"calibrate", calibrate.Result{}},
	{"version", versionInfo{}},
	{"replay", replayOutput{}},
	{"trace info", []traceFigures{}},
	{"fuzz", []*fuzz.Finding{}},
	{"bench alloc", benchAllocOutput{}},
	{"bench migrate", devicebench.Report{}},
	{"bench transfer", devicebench.Report{}},
	{"bench pool", devicebench.Report{}},
}

//go:embed schemas/*.json
var schemaFiles embed.FS

// schemaFile is where a schema is.
func schemaFile(name string) string {
	return "schemas/" + strings.ReplaceAll(name, " ", "-") + ".json"
}

// schemaName is the name of a verb's schema: an argument has no dashes.
func schemaName(verb string) string { return strings.ReplaceAll(verb, "--", "") }

// schemaOfScenarios is the name of the schema of what godwit run and sweep read.
const schemaOfScenarios = "scenario"

// schemaNames are what godwit schema takes.
func schemaNames() []string {
	out := []string{schemaOfScenarios}
	for _, o := range jsonOutputs {
		out = append(out, schemaName(o.verb))
	}
	return out
}

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema scenario | VERB",
		Short: "Print the JSON Schema of scenarios, or of what a verb prints with --json",
		Long: `Print a JSON Schema (draft 2020-12): of scenarios, with which editors complete and
check them, or of what a verb prints with --json: its keys, their types, what they
mean and in which unit they are (x-unit). docs/json.md has the latter for people.`,
		Example: `  godwit schema scenario > scenario.schema.json
  godwit schema run
  godwit schema run summary      # run --summary
  godwit schema bench alloc`,
		ValidArgs: schemaNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.Join(args, " ")
			if !slices.Contains(schemaNames(), name) {
				return fmt.Errorf("schema %q: there is none of this name; there are %s%s", name, strings.Join(schemaNames(), ", "), suggest.For(name, schemaNames()))
			}
			if name == schemaOfScenarios {
				_, err := cmd.OutOrStdout().Write(scenario.Schema())
				return err
			}
			text, err := schemaFiles.ReadFile(schemaFile(name))
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
}
