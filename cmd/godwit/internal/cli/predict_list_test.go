package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// predictText is a scenario of no kind; of 4 devices the machine of these tests has 2.
const predictText = `
params: {rounds: {type: integer, default: 2}, memory: {type: size, default: 1 MiB}, devices: {type: integer, default: 2}}
devices: [{name: d, driver: cpu, count: devices, memory: memory}]
buffers: [{name: a, size: 1 KiB, fill: 1}]
commands: [{repeat: rounds, do: [{fill: a, pattern: 2, queue: d0}, {read: a, queue: d1}]}]
`

// predicted runs predict over a list.
func predicted(t *testing.T, list string, f predictFlags) (out, told string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "list")
	require.NoError(t, os.WriteFile(file, []byte(list), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), "s.yaml"), []byte(predictText), 0o600))
	if f.list, f.memory = file, "4GiB"; f.machine == "" {
		f.machine = "h200x2-nvlink"
	}
	f.repeat = 1
	var w, say strings.Builder
	err = runPredict(t.Context(), &w, &say, nil, &f)
	return w.String(), say.String(), err
}

func TestPredictShowsCasesOfNoKind(t *testing.T) {
	out, _, err := predicted(t, "s.yaml rounds=1,2\n", predictFlags{})
	require.NoError(t, err)
	require.Contains(t, out, "rounds=1")
}

func TestPredictSaysWhatIsAtFaultBeforeItMeasures(t *testing.T) {
	for _, c := range []struct {
		list, slope, machine, want string
	}{
		{list: "s.yaml\ns.yaml rounds=-1\n", want: "repeat is -1"},
		{list: "s.yaml\ns.yaml nope=1\n", want: "no such parameter"},
		{list: "s.yaml\n", machine: "nope", want: "there is none of this name"},
		{list: "s.yaml\n", machine: "./nope.yaml", want: "no such file"},
		{list: "s.yaml\ns.yaml rounds=3\n", slope: "rounds=1,2", want: "the slope is to be over rounds, which is set"},
	} {
		f := predictFlags{slope: c.slope}
		f.machine = c.machine
		out, told, err := predicted(t, c.list, f)
		require.ErrorContains(t, err, c.want)
		require.NotErrorAs(t, err, &failed{}, "it is bad usage")
		require.Empty(t, out+told)
	}
}

func TestPredictGoesOnAfterACaseThatFails(t *testing.T) {
	f := predictFlags{json: true}
	abs := filepath.Join(t.TempDir(), "t.yaml")
	require.NoError(t, os.WriteFile(abs, []byte(predictText), 0o600))
	out, _, err := predicted(t, "s.yaml memory=512\ns.yaml devices=4\ns.yaml\n"+abs+"\n", f)
	require.ErrorAs(t, err, &failed{})
	var got predictOutput
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got.Cases, 4)
	require.Contains(t, got.Cases[0].Failed, "no device of context s takes more than 512")
	require.Contains(t, got.Cases[1].Failed, "the scenario wants 4")
	require.Empty(t, got.Cases[2].Failed+got.Cases[3].Failed)
}

func TestCompareByClocksRunsAsManyTimes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	require.NoError(t, os.WriteFile(file, []byte(predictText), 0o600))
	f := compareFlags{clock: []string{"measured", "modelled"}, code: true}
	f.machine, f.memory, f.warm, f.repeat = "h200x2-nvlink", "4GiB", 1, 3
	var w strings.Builder
	require.NoError(t, runCompare(t.Context(), &w, []string{file}, &f))
	require.Contains(t, w.String(), "the same commands")
}

func TestPredictRefusesWhatNobodyMeasured(t *testing.T) {
	for _, text := range []string{"null", "{}", `{"warm": -5, "repeat": 5}`, `{"warm": 1, "repeat": 0}`, "[]", ""} {
		file := filepath.Join(t.TempDir(), "measured.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, _, err := predicted(t, "s.yaml\n", predictFlags{measured: file})
		require.ErrorContains(t, err, "want what predict --json printed", text)
	}
}
