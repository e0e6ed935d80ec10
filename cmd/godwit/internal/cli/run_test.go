package cli

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/devices/opencl"
	"godwit/study/scenario"
)

func example(name string) string {
	return filepath.Join("..", "..", "..", "..", "examples", name+".yaml")
}

// built is the program, built.
func built(t *testing.T) string {
	t.Helper()
	bin, err := buildOnce()
	require.NoError(t, err)
	return bin
}

// buildOnce builds the command for all tests; TestMain removes it.
var buildOnce = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(buildDir, "godwit")
	build := exec.Command("go", "build", "-o", bin, "../..")
	build.Stderr = os.Stderr
	return bin, build.Run()
})

var buildDir string

func TestMain(m *testing.M) {
	if file := os.Getenv("GODWIT_TEST_STUCK"); file != "" {
		stuckVerb(file)
	}
	if os.Getenv(asGodwit) != "" {
		os.Exit(Main())
	}
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: then what tests start is not to inherit that
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	var err error
	if buildDir, err = os.MkdirTemp("", "godwit-test"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

// TestExamplesOnOpenCLDevices runs every example with two real devices in place
// of its own; with PoCL those are two parts of this machine's processor, each
// with a memory of its own.
func TestExamplesOnOpenCLDevices(t *testing.T) {
	found, err := opencl.Discover()
	if err != nil || len(found) == 0 {
		t.Skip("no OpenCL device here: ", err)
	}
	files, err := filepath.Glob(example("*"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	bin := built(t)
	for _, file := range append(files, filepath.Join("..", "..", "..", "..", "study", "scenario", "testdata", "objects.yaml")) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), bin, "run", file, "--driver", "opencl", "--json")
			cmd.Env = append(os.Environ(), "POCL_DEVICES=pthread pthread")
			out, err := cmd.Output()
			if strings.Contains(string(out), "does not use its shared virtual memory") {
				t.Skip("the driver has no shared virtual memory")
			}
			require.NoError(t, err, "%s", out)
			var got scenario.Result
			require.NoError(t, json.Unmarshal(out, &got))
			require.True(t, got.OK())
			require.GreaterOrEqual(t, got.BytesMoved, got.BytesLowerBound)
			if got.BytesCapacity == 0 { // else memory was short: OpenCL's blocks and holes are others than the simulated devices'
				require.Equal(t, got.BytesLowerBound, got.BytesMoved)
			}
			require.Positive(t, got.BytesMoved)
			for _, d := range got.Devices {
				require.Equal(t, "opencl", d.Driver)
			}
			m := got.Measured
			require.NotNil(t, m)
			require.Equal(t, m.Ended-m.Began, m.Makespan)
			require.Equal(t, m.Makespan, m.Reasons.Compute+m.Reasons.Copy+m.Reasons.Memory+m.Reasons.Host, "the path leaves nothing out")
		})
	}
}

// Devices of one driver that come in place of others have each as much memory as these, not all
// as much as the first.
func TestDevicesOfAnotherDriverHaveEachTheirMemory(t *testing.T) {
	if found, err := opencl.Discover(); err != nil || len(found) == 0 {
		t.Skip("no OpenCL device here: ", err)
	}
	out, _, err := godwit(t, "run", filepath.Join(filepath.Dir(judged), "sweep-peer.yaml"), "--set", "part=64KiB", "--set", "rounds=2", "--driver", "opencl", "--json")
	require.NoError(t, err)
	var got scenario.Result
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Equal(t, uint64(352<<10), got.Devices[0].Bytes)
	require.Greater(t, got.Devices[1].Bytes, uint64(1<<20))
}

// TestRunExitCodes runs the built program, as a shell would.
const nicMachine = "params: {nic: {type: bandwidth, default: 1 GB/s}}\ndevices: [{name: gpu, count: 2}]\nlinks: [{between: [host, gpu], bandwidth: nic}]\n"

func TestRunExitCodes(t *testing.T) {
	dir := t.TempDir()
	bin := built(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	differs := filepath.Join(dir, "differs")
	require.NoError(t, os.Mkdir(differs, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(differs, "overlap.yaml"), []byte("x"), 0o600))
	const head = "devices: [{name: d, driver: cpu, memory: 1 MiB}]\nbuffers: [{name: a, size: 4 KiB, fill: 1}]\n"
	text := write("text", strings.Repeat("a line of text\n", 100))
	for _, c := range []struct {
		name   string
		args   []string
		exit   int
		stderr string
	}{
		{"as expected", []string{"run", example("pingpong")}, 0, ""},
		{"an input", []string{"run", example("histogram"), "--input", "text=" + text}, 0, ""},
		{"an empty machine", []string{"run", example("pingpong"), "--machine", ""}, 2, "--machine: want MACHINE, not an empty word"},
		{"an empty file", []string{"run", example("pingpong"), "--dot="}, 2, "--dot: want FILE, not an empty word"},
		{"two on standard output", []string{"run", example("pingpong"), "--dot", "-", "--timeline", "-"}, 2, "--timeline - and --dot -: both are to be standard output"},
		{"a recording there, too", []string{"run", example("pingpong"), "--record", "-", "--summary"}, 2, "--record - and --summary: both are to be standard output"},
		{"JSON there, too", []string{"run", example("pingpong"), "--dot", "-", "--json"}, 2, "--dot - and --json: both are to be standard output"},
		{"an expectation fails", []string{"run", write("fails.yaml", head+"commands: [{fill: a, pattern: 2}]\nexpect: [{buffer: a, fill: 3}]")}, 1, "not as expected"},
		{"no room", []string{"run", write("room.yaml", "devices: [{name: d, driver: tce, memory: 64 KiB}]\nbuffers: [{name: a, size: 60 KiB}, {name: b, size: 60 KiB}]\ncommands: [{fill: a, pattern: 1}, {copy: a, to: b}]")}, 1, "room.yaml:3: #2 copy"},
		{"no scenario", []string{"run"}, 2, "want a scenario's file"},
		{"no file", []string{"run", filepath.Join(dir, "none.yaml")}, 2, "no such file"},
		{"a rule is broken", []string{"run", write("rule.yaml", head+"commands: [{read: b}]")}, 2, "rule.yaml:3: read: no buffer or sub-buffer is named \"b\""},
		{"a driver nobody has", []string{"run", write("driver.yaml", "devices: [{name: d, driver: abacus}]\nbuffers: [{name: a, size: 1}]\ncommands: []")}, 2, "driver.yaml:1: device \"d\": driver \"abacus\": there is none of this name; there are cpu, null, opencl, tce"},
		{"another driver", []string{"run", example("overlap"), "--driver", "tce"}, 0, ""},
		{"another driver that nobody has", []string{"run", example("overlap"), "--driver", "abacus"}, 2, "--driver: driver \"abacus\""},
		{"totals", []string{"run", "--summary", example("pingpong")}, 0, ""},
		{"a journey", []string{"run", "--explain", "low[0:1KiB]", example("overlap")}, 0, ""},
		{"a journey of nothing", []string{"run", "--explain", "lwo", example("overlap")}, 2, `--explain: no buffer or sub-buffer is named "lwo"; did you mean "low"?`},
		{"a journey past the end", []string{"run", "--explain", "a[0:5KiB]", example("overlap")}, 2, "want some of its 4 KiB"},
		{"a graph nowhere", []string{"run", "--dot", filepath.Join(dir, "no", "where"), example("overlap")}, 2, "--dot: "},
		{"an unknown flag", []string{"run", "--frobnicate", example("pingpong")}, 2, "unknown flag"},
		{"a flag that resembles none", []string{"bench", "migrate", "--nope"}, 2, "unknown flag: --nope; see "},
		{"an unknown input", []string{"run", example("pingpong"), "--input", "x=" + text}, 2, "declares no such input"},
		{"half an input", []string{"run", example("histogram"), "--input", "text"}, 2, "want NAME=FILE"},
		{"an unknown verb", []string{"sprint"}, 2, "unknown command"},
		{"help of no verb", []string{"help", "devcies"}, 2, `did you mean "devices"?`},
		{"help of no trace verb", []string{"help", "trace", "inf"}, 2, `did you mean "info"?`},
		{"a mistyped policy of a replay", []string{"replay", write("own.commands", `{"godwit":"commands","version":1}`+"\n"+`{"context":"1","memories":[{"name":"host"},{"name":"gpu0"}]}
{"context":"1","create":{"id":1,"size":64}}
{"context":"1","command":{"op":"fill","queue":1,"uses":[{"buffer":1,"memory":1,"range":[0,64],"mode":"write"}]}}`+"\n"), "--policy", "belday"}, 2, `did you mean "belady"?`},
		{"a mistyped verb", []string{"devcies"}, 2, `did you mean "devices"?`},
		{"a mistyped benchmark", []string{"bench", "aloc"}, 2, `did you mean "alloc"?`},
		{"a mistyped flag", []string{"run", "--exmaple", "overlap"}, 2, `did you mean "--example"?`},
		{"a mistyped driver", []string{"run", example("overlap"), "--driver", "tec"}, 2, `did you mean "tce"?`},
		{"links that nothing shows", []string{"run", example("overlap"), "--machine", "h200-pcie", "--twice", "1", "--summary"}, 2, `--twice: a --summary shows no links`},
		{"fewer links than none", []string{"run", example("overlap"), "--machine", "h200-pcie", "--twice", "-1"}, 2, `--twice -1: want a number of links, 0 or more`},
		{"a mistyped model", []string{"replay", "--example", "resnet50", "-s", "pytorh"}, 2, `or all, offline, pytorch, pytorch-expandable, lib:PATH`},
		{"a mistyped strategy", []string{"replay", "--example", "resnet50", "-s", "bestfti"}, 2, `did you mean "bestfit"?`},
		{"a mistyped command", []string{"run", write("lunch.yaml", head+"commands: [{lunch: fill, global: 1}]")}, 2, `lunch.yaml:3: command: "lunch" is no command; want one of`},
		{"a mistyped buffer", []string{"run", write("name.yaml", strings.ReplaceAll(head, "name: a,", "name: cells,")+"commands: [{read: cels}]")}, 2, `did you mean "cells"?`},
		{"no arguments wanted", []string{"devices", "all"}, 2, "takes no arguments"},
		{"a built-in example", []string{"run", "--example", "histogram"}, 0, ""},
		{"a built-in trace", []string{"replay", "--example", "resnet50", "-s", "fit", "--repeats", "0"}, 0, ""},
		{"an example nobody has", []string{"run", "--example", "overlpa"}, 2, `did you mean "overlap"?`},
		{"an example and a file", []string{"run", "--example", "overlap", example("overlap")}, 2, "not both"},
		{"the list of examples", []string{"examples"}, 0, ""},
		{"examples written", []string{"examples", "write", filepath.Join(dir, "mine")}, 0, ""},
		{"an example written over what differs", []string{"examples", "write", differs, "overlap"}, 2, "--force replaces it"},
		{"the list of machines", []string{"machines"}, 0, ""},
		{"one machine, with as many devices as wanted", []string{"machines", "h200-nvlink", "--devices", "3", "--json"}, 0, ""},
		{"a machine nobody has", []string{"machines", "laptpo"}, 2, `did you mean "laptop"?`},
		{"a machine's faulty file", []string{"machines", write("machine.yaml", "devices:\n- {name: a, count: 1e18}\n")}, 2, `machine.yaml:2: device "a": count "1e18": want from 1 to 16384`},
		{"a machine's parameters", []string{"machines", write("nic.yaml", nicMachine), "--set", "machine.nic=2 GB/s"}, 0, ""},
		{"a run on a machine with a parameter", []string{"run", "--example", "overlap", "--machine", filepath.Join(dir, "nic.yaml"), "--set", "machine.nic=2 GB/s"}, 0, ""},
		{"a parameter that the machine does not have", []string{"run", "--example", "overlap", "--machine", filepath.Join(dir, "nic.yaml"), "--set", "machine.nics=2 GB/s"}, 2, `did you mean "nic"?`},
		{"a parameter of no machine", []string{"run", "--example", "overlap", "--set", "machine.nic=2 GB/s"}, 2, "of which machine? want --machine, too"},
		{"a parameter of a machine, swept without one", []string{"sweep", "--example", "overlap", "--set", "machine.nic=1,2"}, 2, "of which machine?"},
		{"runs on a machine with two values", []string{"compare", "--example", "overlap", "--machine", filepath.Join(dir, "nic.yaml"), "--set", "machine.nic=1 GB/s,2 GB/s"}, 0, ""},
		{"machines written", []string{"machines", "write", filepath.Join(dir, "mine"), "laptop"}, 0, ""},
		{"devices that the machine lacks", []string{"run", "--driver", "opencl", example("overlap")}, 1, "OpenCL"},
		{"devices", []string{"devices"}, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), bin, c.args...)
			if strings.HasSuffix(c.name, "that the machine lacks") {
				cmd.Env = append(os.Environ(), "OCL_ICD_VENDORS="+dir) // in which there are none
			}
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			code := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				code = exit.ExitCode()
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, c.exit, code, "%s\n%s", out, stderr.String())
			if c.stderr == "" {
				require.Empty(t, stderr.String())
			}
			require.Contains(t, stderr.String(), c.stderr)
		})
	}
}

// TestRunShowsItselfInTotalsAndAsAGraph: what --summary --json and --dot give.
func TestRunShowsItselfInTotalsAndAsAGraph(t *testing.T) {
	graph := filepath.Join(t.TempDir(), "graph.dot")
	out, _, err := godwit(t, "run", example("pingpong"), "--json", "--summary", "--dot", graph)
	require.NoError(t, err)
	var got scenario.Digest
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.True(t, got.OK)
	require.Positive(t, got.BytesMoved)
	require.NotContains(t, out, "segments")
	text, err := os.ReadFile(graph)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), "digraph"), "%.40s", text)
	require.Equal(t, got.Commands, strings.Count(string(text), `shape="box"`))
	require.Equal(t, got.Copies, strings.Count(string(text), `shape="ellipse"`))
	out, _, err = godwit(t, "run", example("pingpong"), "--dot", "-")
	require.NoError(t, err)
	require.Equal(t, string(text), out, "nothing else is on standard output")
	require.NoFileExists(t, "-")
}

// TestAFileThatCannotBeIsSaidBeforeTheRun: which may be long.
func TestAFileThatCannotBeIsSaidBeforeTheRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
devices: [{name: d, driver: cpu, memory: 1 MiB}]
buffers: [{name: a, size: 4 KiB, fill: 1}]
commands: [{read: a, queue: d}]
expect: [{moved: 1}]
`), 0o600)) // a run that was made would say that it is not as expected
	for _, flag := range []string{"--dot", "--timeline", "--csv"} {
		_, _, err := godwit(t, "run", file, "--machine", "h200-pcie", flag, filepath.Join(filepath.Dir(file), "none", "x"))
		require.ErrorContains(t, err, flag+": ")
		require.NotContains(t, err.Error(), "not as expected")
		require.False(t, isFailed(err), "bad usage")
	}
}

func TestRunPrintsOneJSONObject(t *testing.T) {
	timeline := filepath.Join(t.TempDir(), "timeline.json")
	out, _, err := godwit(t, "run", example("pingpong"), "--json", "--timeline", timeline)
	require.NoError(t, err)
	var got struct {
		Commands []map[string]any
		Copies   []struct {
			Buffer, From, To, Way, Reason string
			Offset, Bytes                 uint64
			Command                       int
		}
		Moved    uint64 `json:"bytes_moved"`
		Bound    uint64 `json:"bytes_lower_bound"`
		Verified bool
		Error    *string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	assert.NotEmpty(t, got.Commands)
	require.NotEmpty(t, got.Copies)
	assert.True(t, got.Verified)
	assert.Equal(t, got.Bound, got.Moved)
	require.NotNil(t, got.Error)
	assert.Empty(t, *got.Error)
	var sum uint64
	for _, c := range got.Copies {
		sum += c.Bytes
		assert.NotEmpty(t, c.Reason)
		assert.NotEqual(t, c.From, c.To)
	}
	assert.Equal(t, got.Moved, sum)

	data, err := os.ReadFile(timeline)
	require.NoError(t, err)
	var tl struct {
		Events []struct {
			Name, Ph, Cat string
			Pid, Tid      int
			Ts, Dur       float64
		} `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(data, &tl))
	phases, cats := make(map[string]int), make(map[string]int)
	for _, e := range tl.Events {
		phases[e.Ph]++
		cats[e.Cat]++
		assert.GreaterOrEqual(t, e.Dur, 0.0)
	}
	assert.Equal(t, len(got.Commands)+len(got.Copies), cats["command"]+cats["copy"], "a slice for each command and copy")
	assert.Equal(t, len(got.Copies), cats["link"], "and one for each copy on its link")
	assert.Positive(t, phases["C"], "counters")
	assert.Positive(t, phases["s"])
	assert.Equal(t, phases["s"], phases["f"], "every flow begins and ends")
}

func TestRunJSONOfAFaultyScenario(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	require.NoError(t, os.WriteFile(file, []byte("devices: []"), 0o600))
	out, _, err := godwit(t, "run", file, "--json")
	require.Error(t, err)
	require.False(t, isFailed(err), "bad input, not a failed run")
	var got map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	assert.Contains(t, got["error"], "s.yaml:1: ")
	assert.Equal(t, false, got["verified"])
}

func TestTheReadmeNamesEveryVerb(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "README.md"))
	require.NoError(t, err)
	for _, v := range verbs() {
		assert.Contains(t, string(readme), "| `"+v.Name(), "README.md: verbs")
	}
}

// TestDevicesSaysWhatIsMissing hides the OpenCL loader.
func TestDevicesSaysWhatIsMissing(t *testing.T) {
	bin := built(t)
	for _, args := range [][]string{{"devices"}, {"devices", "--json"}, {"run", example("pingpong")}} {
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Env = append(os.Environ(), "GODWIT_OPENCL_LIBRARY="+filepath.Join(t.TempDir(), "none.so"))
		out, err := cmd.Output()
		require.NoError(t, err, "everything else works without OpenCL")
		if args[0] == "devices" {
			require.Contains(t, string(out), "OpenCL is not available")
			require.Contains(t, string(out), "tce")
		}
	}
}

func TestDevicesListsDrivers(t *testing.T) {
	out, _, err := godwit(t, "devices", "--json")
	require.NoError(t, err)
	var got struct{ Drivers []driverList }
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	var names []string
	for _, d := range got.Drivers {
		names = append(names, d.Driver)
		assert.NotEmpty(t, d.What, d.Driver)
		assert.True(t, len(d.Devices) > 0 || d.Missing != "", "%s: devices, or what is missing", d.Driver)
	}
	assert.Subset(t, names, []string{"cpu", "null", "opencl", "tce"})
	out, _, err = godwit(t, "devices")
	require.NoError(t, err)
	for _, n := range names {
		assert.Contains(t, out, n+": ")
	}
}

// TestAFailureIsSaidOnce: the report says that there was one, and the error why.
func TestAFailureIsSaidOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "room.yaml")
	require.NoError(t, os.WriteFile(file, []byte("devices: [{name: d, driver: tce, memory: 64 KiB}]\nbuffers: [{name: a, size: 60 KiB}, {name: b, size: 60 KiB}]\ncommands: [{fill: a, pattern: 1}, {copy: a, to: b}]"), 0o600))
	out, _, err := godwit(t, "run", file)
	require.ErrorContains(t, err, "out of memory")
	require.Contains(t, out, "not finished\n")
	require.NotContains(t, out, "out of memory")
}

func TestAFileThatIsCalledLikeAnExample(t *testing.T) {
	for _, args := range [][]string{{"run", "overlap"}, {"run", "nothere/overlap.yaml"}, {"replay", "resnet50"}} {
		_, _, err := godwit(t, args...)
		require.ErrorContains(t, err, "no such file or directory; did you mean --example ")
	}
	_, _, err := godwit(t, "run", "nothere.yaml")
	require.NotContains(t, err.Error(), "example")
	file := filepath.Join(t.TempDir(), "overlap.yaml") // is there, and names one that is not
	require.NoError(t, os.WriteFile(file, []byte("devices: [{name: d, driver: cpu}]\nbuffers: [{name: a, file: nothere}]\ncommands: []"), 0o600))
	_, _, err = godwit(t, "run", file)
	require.ErrorContains(t, err, "nothere")
	require.NotContains(t, err.Error(), "example")
}

// TestReportsThatGoToNoTerminalAreNotTooWide: tables wrap at COLUMNS, or at 160.
func TestReportsThatGoToNoTerminalAreNotTooWide(t *testing.T) {
	for _, c := range []struct {
		columns string
		most    int
	}{{"", 160}, {"130", 130}, {"soon", 160}} {
		t.Setenv("COLUMNS", c.columns)
		for _, name := range []string{"map", "svm", "overlap"} {
			out, _, err := godwit(t, "run", example(name))
			require.NoError(t, err)
			for _, line := range strings.Split(out, "\n") {
				require.LessOrEqual(t, utf8.RuneCountInString(line), c.most, line)
			}
		}
		var b strings.Builder
		wide := newTable(2, slices.Repeat([]any{"a column"}, 40)...)
		wide.Row("a row", 1)
		wide.Print(&b, screenWidth())
		for _, line := range strings.Split(b.String(), "\n") {
			require.LessOrEqual(t, utf8.RuneCountInString(line), c.most, line)
		}
	}
}

func TestRunShowsStatisticsAndTimes(t *testing.T) {
	out, _, err := godwit(t, "run", example("pingpong"), "--stats", "--profile", "--json")
	require.NoError(t, err)
	var got scenario.Result
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Memories, len(got.Devices)+1)
	for i, d := range got.Devices {
		require.Equal(t, d.Name, got.Memories[i+1].Name)
		require.Positive(t, got.Memories[i+1].Allocations.Accumulated)
		require.Equal(t, d.PeakUse, got.Memories[i+1].Allocated.Peak)
	}
	require.NotNil(t, got.Commands[0].Times)
}

// A scenario from standard input is that of a file, but for its name.
func TestAScenarioFromStandardInput(t *testing.T) {
	bin := built(t)
	run := func(args ...string) string {
		text, err := os.Open(example("matmul-tiles"))
		require.NoError(t, err)
		defer func() { require.NoError(t, text.Close()) }()
		cmd := exec.CommandContext(t.Context(), bin, append([]string{"run", "-"}, args...)...)
		cmd.Stdin = text
		out, err := cmd.CombinedOutput()
		return string(out) + exitText(err)
	}
	require.Contains(t, run("--set", "n=2", "--set", "passes=1"), "n = 2, side = 32, passes = 1, percent = 70")
	require.Contains(t, run("--help"), "how often the product is made")
	require.Regexp(t, `stdin:\d+: param "n": --set n=0: 0 is below the least, 1\n.*exit status 2`, run("--set", "n=0"))
	require.Contains(t, run("--set", "n=2", "--set", "n=3"), "it is set twice")
}

// exitText is how a program ended, in words.
func exitText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTheHelpOfAScenarioListsWhatItIsGiven(t *testing.T) {
	bin := built(t)
	out, err := exec.CommandContext(t.Context(), bin, "run", example("histogram"), "--help").CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "any file")
	out, err = exec.CommandContext(t.Context(), bin, "run", "none.yaml", "--help").CombinedOutput()
	require.Equal(t, "exit status 2", exitText(err), "%s", out)
}
