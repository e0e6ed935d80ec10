package devicefile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAWishIsANumberAListOrAFile(t *testing.T) {
	for text, want := range map[string]wish{
		"":              {},
		"4":             {Count: 4},
		"4,":            {List: []string{"4"}},
		"2,0":           {List: []string{"2", "0"}},
		"gpu1":          {List: []string{"gpu1"}},
		"gpu1, gpu0":    {List: []string{"gpu1", "gpu0"}},
		"devices.yaml":  {File: "devices.yaml"},
		"./gpu1":        {File: "./gpu1"},
		"/etc/a,b/list": {File: "/etc/a,b/list"},
	} {
		got, err := ParseWish(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, says := range map[string]string{
		"0":                                    "1 to 1024",
		"-1":                                   "1 to 1024",
		"1025":                                 "1 to 1024",
		",":                                    "item 0 of the list is empty",
		"0,,1":                                 "item 1 of the list is empty",
		",0":                                   "item 0 of the list is empty",
		strings.Repeat("a", 65):                "at most 64 bytes",
		strings.Repeat("0,", maxDevices) + "1": "a list of 1025 devices",
	} {
		_, err := ParseWish(text)
		require.ErrorContains(t, err, says, text)
	}
}
