//go:build linux

package main

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMain is the second process where the first one has started it.
func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTwoProcessesTakeTurns(t *testing.T) {
	require.NoError(t, parent(context.Background()))
}

func TestAnInterruptedProcessEndsWithoutTheOther(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	require.ErrorIs(t, parent(ctx), context.Canceled)
}
