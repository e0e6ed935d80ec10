package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/study/sweep"
)

// A sweep's points count by their commands, those that were known before by none; a line names what is under way.
func TestASweepsProgressIsByCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	text := []byte("params: {n: {type: integer, default: 1}}\ndevices: [{name: d, driver: cpu}]\nbuffers: [{name: a, size: 4}]\ncommands:\n- {repeat: n, as: i, do: [{fill: a, pattern: {uint: i}, queue: d}]}\n")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	a, err := sweep.ParseAxis("n=1,10,100")
	require.NoError(t, err)
	c := &sweep.Config{File: file, Data: text, Axes: []sweep.Axis{a}}
	points, err := c.Points()
	require.NoError(t, err)
	p := newSweepProgress(t.Context(), c, points, nil)
	defer p.finish()
	s := p.state()
	require.EqualValues(t, 111, s.Total)
	require.Less(t, s.ETA, 0.0, "nobody knows yet")
	p.end(2, true, "")
	p.begin(0, 1)
	p.end(0, false, "it failed")
	p.begin(1, 10)
	p.mu.Lock()
	p.under[1] = time.Now().Add(-90 * time.Second)
	p.mu.Unlock()
	s = p.state()
	require.EqualValues(t, 1, s.Done)
	require.EqualValues(t, 11, s.Total)
	s.Elapsed, s.ETA = 61, 3600
	require.Equal(t, "commands 1 of 11; 2 of 3 points; 1 failed; 1m1s gone; about 1h0m left; under way: n=10 (1m30s)", line(s))
}
