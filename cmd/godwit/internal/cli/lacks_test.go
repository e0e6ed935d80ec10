package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatASystemLacksIsSaid(t *testing.T) {
	require.Empty(t, lacks("linux"))
	require.NotContains(t, lacks("darwin"), "shared virtual memory")
	require.Contains(t, lacks("windows"), "shared virtual memory")
}
