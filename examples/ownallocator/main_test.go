package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"godwit/bufalloc"
	"godwit/bufalloc/bufalloctest"
)

func TestWorstFit(t *testing.T) {
	s, err := bufalloc.ParseStrategy("worstfit")
	require.NoError(t, err)
	bufalloctest.Placement(t, s)
}

func TestItsGodwitKnowsItByName(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "ownallocator")
	out, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	trace := filepath.Join("..", "..", "testdata", "traces", "minimalloc", "A.1048576.csv")
	cmd := exec.Command(bin, "replay", trace, "-s", "worstfit,bestfit", "--repeats", "0", "--json")
	cmd.Stderr = os.Stderr
	out, err = cmd.Output()
	require.NoError(t, err)
	var said struct {
		Results []struct {
			Strategy string
			Overhead float64
		}
	}
	require.NoError(t, json.Unmarshal(out, &said))
	assert.Equal(t, "worstfit", said.Results[0].Strategy)
	assert.Greater(t, said.Results[0].Overhead, said.Results[1].Overhead, "it is what its name says")
	found, err := exec.Command(bin, "fuzz", "-s", "worstfit", "--evals", "50", "--ops", "100", "--out", t.TempDir()).CombinedOutput()
	require.NoError(t, err, "%s", found)
	assert.Contains(t, string(found), "worstfit")
}
