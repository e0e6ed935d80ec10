package input

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLinesAreCounted(t *testing.T) {
	l := NewLines(strings.NewReader("a\nb\n\n# c\nd\n"), "x")
	l.used = MaxEvents - 2
	for range 2 {
		_, ok := l.Next()
		require.True(t, ok)
	}
	_, ok := l.Next()
	require.False(t, ok)
	require.ErrorContains(t, l.Err(), "more than 16777216 lines")
}

func TestLinesWithoutAnythingAreCountedToo(t *testing.T) {
	l := NewLines(strings.NewReader("\n# c\n\na\n"), "x")
	l.N = maxLines - 3
	_, ok := l.Next()
	require.False(t, ok)
	require.ErrorContains(t, l.Err(), "more than 33554432 lines")
}
