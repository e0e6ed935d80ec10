//go:build linux

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"

	"godwit/devices/opencl"
	"godwit/internal/icd/tracelog"
)

var rewriteScreens = flag.Bool("rewrite", false, "rewrite the screens in testdata/screens")

// screens are the verbs as they are seen on a terminal. Of those that show measured
// figures only the words are compared.
var screens = []struct {
	name     string
	args     []string
	measured bool
	devices  bool // needs two OpenCL devices
}{
	{"root", nil, false, false},
	{"help", []string{"run", "--help"}, false, false},
	{"run", []string{"run", "--example", "overlap"}, false, false},
	{"help-scenario", []string{"run", "--example", "matmul-tiles", "--help"}, false, false},
	{"run-repeat", []string{"run", "--example", "halo"}, false, false},
	{"run-summary", []string{"run", "--example", "halo", "--summary"}, false, false},
	{"run-explain", []string{"run", "--example", "map", "--explain", "x[0:768]"}, false, false},
	{"sweep", []string{"sweep", "--example", "overlap", "--driver", "cpu,tce", "--fast"}, false, false},
	{"compare", []string{"compare", "--example", "training-step", "--policy", "lru,belady", "--set", "steps=2"}, true, false},
	{"help-sweep", []string{"sweep", "--help"}, false, false},
	{"run-figures", []string{"run", "--example", "pingpong", "--stats", "--profile"}, true, false},
	{"run-json", []string{"run", "--example", "overlap", "--json"}, false, false},
	{"exec", []string{"exec", "--lib", "lib", "--", "sh", "-c", `echo the program; cp summary.json "$GODWIT_SUMMARY"`}, false, false},
	{"exec-json", []string{"exec", "--lib", "lib", "--json", "--", "cp", "summary.json", "left.json"}, false, false},
	{"exec-signal", []string{"exec", "--lib", "lib", "--", "sh", "-c", "kill -9 $$"}, false, false},
	{"examples", []string{"examples"}, false, false},
	{"examples-write", []string{"examples", "write", "here", "overlap"}, false, false},
	{"machines", []string{"machines"}, false, false},
	{"machine", []string{"machines", "gpux4-switch"}, false, false},
	{"run-machine", []string{"run", "--example", "halo", "--machine", "h200x4-nvlink"}, false, false},
	{"schema", []string{"schema", "version"}, false, false},
	{"devices", []string{"devices"}, true, false}, // without OpenCL, whose devices differ from machine to machine
	{"replay", []string{"replay", "--example", "resnet50", "--repeats", "0"}, false, false},
	{"replay-times", []string{"replay", "--example", "resnet50", "-s", "fit,bestfit", "--repeats", "1", "--pool", "power-of-two"}, true, false},
	{"replay-commands", []string{"replay", "small.commands", "--policy", "lru,belady", "--memory", "recorded,60%,256"}, false, false},
	{"trace-info", []string{"trace", "info", "resnet50.csv.gz"}, false, false},
	{"trace-infos", []string{"trace", "info", "small.csv", "resnet50.csv.gz"}, false, false},
	{"trace-convert", []string{"trace", "convert", "small.csv", "--to", "rmm"}, false, false},
	{"trace-cut", []string{"trace", "cut", "small.csv", "--from", "2", "--until", "5"}, false, false},
	{"trace-merge", []string{"trace", "merge", "small.csv", "small.csv"}, false, false},
	{"trace-perturb", []string{"trace", "perturb", "small.csv", "--seed", "3"}, false, false},
	{"trace-shrink", []string{"trace", "shrink", "resnet50.csv.gz", "--keep", "bestfit > 1.001", "--tries", "20", "--out", "less.csv"}, false, false},
	{"fuzz", []string{"fuzz", "--evals", "40", "--ops", "60"}, true, false},
	{"bench-alloc", []string{"bench", "alloc", "--live", "1000", "--pairs", "200", "--rounds", "1", "--pocl", "-", "-s", "fit"}, true, false},
	{"bench-migrate", []string{"bench", "migrate", "--sizes", "64KiB", "--reps", "1", "--vendor=false"}, true, true},
	{"bench-transfer", []string{"bench", "transfer", "--sizes", "64KiB", "--reps", "1"}, true, true},
	{"bench-pool", []string{"bench", "pool", "--sizes", "64KiB", "--reps", "1"}, true, true},
	{"version", []string{"version"}, true, false},
	{"mistyped", []string{"devcies"}, false, false},
}

// screenFiles is a folder with what the verbs of screens are given.
func screenFiles(t *testing.T) string {
	dir := t.TempDir()
	trace, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "examples", "resnet50.csv.gz"))
	require.NoError(t, err)
	summary, err := json.Marshal(&tracelog.Summary{
		Complete: true, Contexts: 1, Commands: 22, Launches: 14, Refused: 1, Copies: 9, BytesMoved: 81920, LowerBound: 81920, Compulsory: 81920,
		Devices: []tracelog.DeviceUse{{Name: "host"}, {Name: "gpu0", Memory: 1, Peak: 32 << 10}, {Name: "gpu1", Memory: 2, Peak: 32 << 10}},
		Links:   []tracelog.LinkUse{{From: "gpu0", To: "gpu1", Way: "direct", Copies: 8, Bytes: 73728}, {From: "host", To: "gpu0", Way: "ring", Copies: 1, Bytes: 8192}},
		Buffers: []tracelog.BufferUse{{Name: "buffer 1", Size: 32 << 10, Copies: 9, BytesMoved: 81920}},
		Ops:     map[string]int{"launch": 14, "write": 8},
	})
	require.NoError(t, err)
	small := "id,lower,upper,size\n0,0,9,1024\n1,1,3,4096\n2,2,8,512\n3,4,7,4096\n4,5,6,256\n"
	commands := `{"godwit":"commands","version":1}` + "\n" + `{"context":"1","memories":[{"name":"host"},{"name":"gpu0","capacity":2048}]}` + "\n"
	for b := range 4 {
		commands += fmt.Sprintf(`{"context":"1","create":{"id":%d,"size":1024,"content":true}}`+"\n", b+1)
	}
	for i := range 40 {
		commands += fmt.Sprintf(`{"context":"1","command":{"op":"launch","kernel":"k","queue":1,"uses":[{"buffer":%d,"memory":1,"range":[0,1024],"mode":"both"}]}}`+"\n", 1+i%4)
	}
	for name, text := range map[string]string{"small.commands": commands, "resnet50.csv.gz": string(trace), "summary.json": string(summary), "small.csv": small} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "lib"), 0o700))
	require.NoError(t, os.Rename(stubLibrary(t), filepath.Join(dir, "lib", libraryName)))
	return dir
}

func TestScreensOfEveryVerb(t *testing.T) {
	bin := built(t)
	found, _ := opencl.Discover()
	for _, s := range screens {
		t.Run(s.name, func(t *testing.T) {
			if s.devices && len(found) < 2 {
				t.Skip("want two OpenCL devices")
			}
			for _, width := range []int{60, 200} {
				dir := screenFiles(t)
				env := ""
				if s.name == "devices" {
					env = "OCL_ICD_VENDORS=" + dir
				}
				got := onTerminal(t, dir, bin, width, env, s.args...)
				for line := range strings.FieldsFuncSeq(got, func(r rune) bool { return r == '\r' || r == '\n' }) { // a bar begins its line again
					if ofTable(line) {
						require.LessOrEqual(t, text.StringWidthWithoutEscSequences(line), width, "%q", line)
					}
				}
				got = overwritten.ReplaceAllString(strings.ReplaceAll(got, "\r\n", "\n"), "")
				got = jsonTimes.ReplaceAllString(strings.ReplaceAll(got, "\x1b", "␛"), "$1#")
				if s.measured {
					got = masked(got)
				}
				golden := filepath.Join("testdata", "screens", fmt.Sprintf("%s-%d", s.name, width))
				if *rewriteScreens {
					require.NoError(t, os.MkdirAll(filepath.Dir(golden), 0o755))
					require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
					continue
				}
				want, err := os.ReadFile(golden)
				require.NoError(t, err)
				require.Equal(t, string(want), got, "go test ./cmd/godwit/internal/cli -run Screens -rewrite")
			}
		})
	}
}

// ofTable reports whether a line is of a table: the terminal wraps others.
func ofTable(line string) bool {
	return strings.ContainsAny(line, "│┌├└─█")
}

var (
	// overwritten is what a progress bar has drawn over.
	overwritten = regexp.MustCompile(`[^\n]*\r`)

	// jsonTimes are those of JSON, whose keys name their unit.
	jsonTimes = regexp.MustCompile(`("[a-z_]+_(?:ns|us|ms|s)": )[0-9.e+-]+`)

	numbers  = regexp.MustCompile(`[-#]?[0-9][0-9.,]*(e[-+][0-9]+)?`)
	machines = regexp.MustCompile(`pthread[^│\n]*|platform .*|godwit # .*|build #.*|\bx?(B|KiB|MiB|GiB|us|ms|ns|s|x|alloc|free)\b|µs|[kMGT]B/s`)
	lines    = regexp.MustCompile(`[─│┌┬┐├┼┤└┴┘]+`)
)

// masked leaves of a screen with figures its words, sorted: how columns are shared out
// depends on the figures, and that they fit is tested before.
func masked(s string) string {
	s = machines.ReplaceAllString(numbers.ReplaceAllString(lines.ReplaceAllString(s, " "), "#"), "")
	words := strings.Fields(s)
	slices.Sort(words)
	return strings.Join(slices.Compact(words), "\n") + "\n"
}

// onTerminal runs the command on a terminal of so many columns.
func onTerminal(t *testing.T, dir, bin string, width int, env string, args ...string) string {
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TERM=xterm", "COLUMNS=", env)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: uint16(width)})
	require.NoError(t, err)
	var out bytes.Buffer
	if _, err := io.Copy(&out, f); err != nil {
		require.ErrorIs(t, err, syscall.EIO, "what a terminal says at the end")
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	return out.String()
}

func TestColoursAreForTerminalsThatWantThem(t *testing.T) {
	bin := built(t)
	args := []string{"run", "--example", "pingpong"}
	require.Contains(t, onTerminal(t, t.TempDir(), bin, 80, "", args...), "\x1b[")
	require.NotContains(t, onTerminal(t, t.TempDir(), bin, 80, "NO_COLOR=1", args...), "\x1b[")
	out, err := exec.Command(bin, args...).Output()
	require.NoError(t, err)
	require.NotContains(t, string(out), "\x1b[")
}
