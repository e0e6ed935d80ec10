package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const rig = `about: two devices and a link
params: {pairs: {type: integer, default: 1, min: 1, max: 8}}
let: {most: 2 * pairs}
devices: [{name: d, driver: cpu, count: most, memory: room}]
links: [{between: [d0, d1], latency: &lag 5 us}, {from: host, to: d0, latency: *lag}]
`

const user = `include: "machines/{rig}.yaml"
params:
  rig: {type: string, default: rig}
  room: {type: size, default: 1 MiB}
let: {last: most - 1}
devices: [{name: own, driver: cpu}]
links: [{between: [d0, own], way: direct}]
buffers: [{name: a, size: 4 KiB, fill: 1}]
commands: [{read: a, queue: "d{last}"}]
`

// parseWith parses text in a folder of files.
func parseWith(t *testing.T, text string, opt Options, files map[string]string) (*Scenario, string, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	s, err := Parse(t.Context(), filepath.Join(dir, "s.yaml"), []byte(text), opt)
	return s, dir + string(filepath.Separator), err
}

func TestAnIncludedFileBringsDevicesLinksAndParameters(t *testing.T) {
	files := map[string]string{"machines/rig.yaml": rig, "machines/big.yaml": strings.Replace(rig, "default: 1", "default: 3", 1)}
	s, dir, err := parseWith(t, strings.Replace(user, "[d0, own]", "[d1, own]", 1), Options{}, files)
	require.NoError(t, err)
	require.Len(t, s.Devices, 3)
	require.Len(t, s.Links, 5)
	require.EqualValues(t, 1<<20, s.Devices[0].Memory)
	require.Equal(t, dir+filepath.Join("machines", "rig.yaml"), s.Devices[0].File)
	require.Equal(t, dir+"s.yaml", s.Devices[2].File)

	s, _, err = parseWith(t, user, Options{Set: map[string]string{"rig": "big", "pairs": "2"}}, files)
	require.NoError(t, err)
	require.Len(t, s.Devices, 5)
	var names []string
	for _, p := range s.Params {
		names = append(names, p.Name+"="+p.Value)
	}
	require.Equal(t, []string{"rig=big", "room=1048576", "pairs=2"}, names)
}

// Contents that stand beside a scenario that is no file are found as files are.
func TestIncludesAreTakenFromContentsAtHand(t *testing.T) {
	s, err := Parse(t.Context(), "s.yaml", []byte(user), Options{Files: map[string][]byte{"machines/rig.yaml": []byte(rig)}})
	require.NoError(t, err)
	require.Len(t, s.Devices, 3)
	d, err := Describe(t.Context(), "s.yaml", []byte(user), Options{Files: map[string][]byte{"machines/rig.yaml": []byte(rig)}})
	require.NoError(t, err)
	require.Len(t, d.Params, 3)
	d, err = Describe(t.Context(), "s.yaml", []byte(strings.Replace(user, ", default: rig", "", 1)), Options{})
	require.NoError(t, err, "which file is included is not known yet")
	require.Len(t, d.Params, 2)
}

// An error names the file that is at fault, and what it disagrees with.
func TestErrorsOfIncludesNameFileAndLine(t *testing.T) {
	const rest = "devices: [{name: own, driver: cpu}]\nbuffers: [{name: a, size: 4}]\ncommands: []\n"
	for name, c := range map[string]struct {
		text, included string
		want           []string
	}{
		"what an included file may not have": {"include: m.yaml\n" + rest, "devices: [{name: d, driver: cpu}]\nbuffers: [{name: b, size: 4}]", []string{
			`DIRm.yaml:2: include DIRm.yaml: unknown key "buffers"; known here: about, devices, let, links, params`}},
		"a second level": {"include: m.yaml\n" + rest, "include: n.yaml", []string{
			`DIRm.yaml:1: include: DIRm.yaml is included itself: includes go one level deep`}},
		"a cycle": {"include: s.yaml\n" + rest, "", []string{
			`DIRs.yaml:1: include: DIRs.yaml: it includes itself`}},
		"twice": {"include: [m.yaml, ./m.yaml]\n" + rest, "let: {x: 1}", []string{
			`DIRs.yaml:1: include: DIRm.yaml is included twice`}},
		"nothing": {"include: none.yaml\n" + rest, "", []string{
			`DIRs.yaml:1: include: stat DIRnone.yaml: no such file or directory`}},
		"an empty file": {"include: m.yaml\n" + rest, "# nothing\n", []string{
			`DIRm.yaml: empty: an included file has devices`}},
		"a list": {"include: m.yaml\n" + rest, "- 1", []string{
			`DIRm.yaml:1: include DIRm.yaml: want a mapping, not a list`}},
		"somebody's file": {"include: m.yaml\n" + rest, "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:" + strings.Repeat("secret ", 100), []string{
			`DIRm.yaml:1: include DIRm.yaml: want a mapping, not "root:x:0:0:root:/root:/bin/bash daemon:x:1:1:secret secret secre…"`}},
		"names that are taken": {"include: m.yaml\nlet: {x: 1}\nlinks: [{between: [own, d]}]\n" + rest, "\nlet: {x: 2}\ndevices: [{name: own, driver: cpu}, {name: d, driver: cpu}]\nlinks: [{from: d, to: own}]", []string{
			`DIRs.yaml:2: let "x": the name is taken by the let of DIRm.yaml:2`,
			`DIRs.yaml:3: link: from d to own was declared in DIRm.yaml:4: each is given once, with one way (default: direct)`,
			`DIRs.yaml:4: device "own": the name is taken by the device of DIRm.yaml:3`}},
		"faults in both": {"include: m.yaml\nlet: {x: nope}\n" + rest, "let: {y: 1 +}\ndevices: [{name: d, driver: cup}]", []string{
			`DIRs.yaml:2: let x "nope": no number is named "nope"`,
			`DIRm.yaml:1: let y "1 +": ends where a number is wanted`,
			`DIRm.yaml:2: device "d": driver "cup": there is none of this name; there are cpu, liar, null, tce; did you mean "cpu"?`}},
		"an anchor of the other file": {"include: m.yaml\nname: &x here\n" + rest, "let: {y: *x}", []string{
			`DIRm.yaml:1: alias *x: no anchor has this name`,
			`DIRm.yaml:1: let y: want a word, not nothing`}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"s.yaml": c.text}
			if c.included != "" {
				files["m.yaml"] = c.included
			}
			_, dir, err := parseWith(t, c.text, Options{}, files)
			var bad Errors
			require.ErrorAs(t, err, &bad)
			var got []string
			for _, e := range bad {
				got = append(got, strings.ReplaceAll(e.Error(), dir, "DIR"))
			}
			require.Equal(t, c.want, got)
		})
	}
}

// A device of an included file that cannot be made is that file's fault.
func TestAFaultOfARunNamesTheIncludedFile(t *testing.T) {
	s, err := Parse(t.Context(), "s.yaml", []byte("include: m.yaml\nbuffers: [{name: a, size: 4}]\ncommands: []"),
		Options{Files: map[string][]byte{"m.yaml": []byte("\n\ndevices: [{name: d, driver: cpu, params: {nope: 1}}]")}})
	require.NoError(t, err)
	_, err = Run(t.Context(), s, RunOptions{})
	require.ErrorContains(t, err, "m.yaml:3: device d: ")
}
