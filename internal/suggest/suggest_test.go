package suggest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"godwit/internal/suggest"
)

func TestSlipsAreMended(t *testing.T) {
	verbs := []string{"run", "exec", "devices", "replay", "launch", "write", "read"}
	for name, want := range map[string]string{
		"lunch": "launch", "raed": "read", "wrote": "write", "RUN": "run", "rn": "run", "dev": "devices", "device": "devices",
		"": "", "abacus": "", "r": "", "re": "", "zz": "", "run": "run",
	} {
		require.Equal(t, want, suggest.Nearest(name, verbs), name)
	}
	require.Equal(t, `; did you mean "launch"?`, suggest.For("lunch", verbs))
	require.Empty(t, suggest.For("abacus", verbs))
	require.Empty(t, suggest.For("run", nil))
}

// One slip in a word of four letters or more is mended, whatever it is.
func TestOneSlipIsMended(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]{4,12}`).Draw(t, "word")
		at := rapid.IntRange(0, len(word)-1).Draw(t, "at")
		slips := []string{word[:at] + word[at+1:], word[:at] + "-" + word[at:], word[:at] + "-" + word[at+1:]}
		require.Equal(t, word, suggest.Nearest(rapid.SampledFrom(slips).Draw(t, "slip"), []string{strings.Repeat("#", 40), word}))
	})
}
