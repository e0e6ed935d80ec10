package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShellsCompleteValues(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"run --driver ", "opencl"},
		{"run --example o", "overlap"},
		{"replay --example ", "resnet50"},
		{"replay --strategy fit,best", "fit,bestfit"},
		{"replay --pool ", "leading-bits"},
		{"fuzz --objective ", "slow-op"},
		{"trace convert --to ", "minimalloc"},
		{"examples write here ", "halo"},
		{"run ", "yaml"},
		{"sweep ", "yaml"},
		{"sweep --policy l", "lru"},
		{"sweep --example matmul-tiles --set p", "percent="},
		{"run --example matmul-tiles --set per", "percent="},
	} {
		args := append([]string{"__complete"}, strings.Split(c.line, " ")...)
		out, _, err := godwit(t, args...)
		require.NoError(t, err, c.line)
		require.Contains(t, strings.Split(regexp.MustCompile(`\t.*`).ReplaceAllString(out, ""), "\n"), c.want, c.line)
	}
}
