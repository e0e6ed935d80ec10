package examples_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"godwit/examples"
)

func TestEveryScenarioAndTraceOfTheFolderIsAnExample(t *testing.T) {
	for _, kind := range []string{examples.Scenario, examples.Trace} {
		found, err := filepath.Glob("*" + kind)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		var names []string
		for _, f := range found {
			name := strings.TrimSuffix(f, kind)
			names = append(names, name)
			want, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, n := range []string{name, f} {
				file, content, ok := examples.Read(n, kind)
				require.True(t, ok)
				require.Equal(t, f, file)
				require.Equal(t, want, content)
			}
		}
		require.Equal(t, names, examples.Names(kind))
	}
	_, _, ok := examples.Read("../go", ".mod")
	require.False(t, ok)
}
