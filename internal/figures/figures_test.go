package figures_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/figures"
)

type inner struct {
	N  int    `json:"n" show:"n|count|-"`
	By string `json:"by"`
}

type base struct {
	Name string `json:"name" show:"name"`
}

type row struct {
	base
	Size   uint64        `json:"size" show:"size|size"`
	Took   time.Duration `json:"took_ns,omitempty" show:"took|span|never"`
	Ratio  float64       `show:"ratio|%.2f x"`
	Ok     bool          `json:"ok" show:"fine|yes"`
	Worst  *inner        `json:"worst" show:"worst "`
	Hidden *inner        `json:"hidden"`
	secret int
}

func texts(r *row) map[string]string {
	out := make(map[string]string)
	for _, c := range figures.Of[row]() {
		if c.Header != "" {
			out[c.Header] = c.Text(r)
		}
	}
	return out
}

func TestColumnsAreTheFieldsOfAStruct(t *testing.T) {
	full := &row{base{"a"}, 16 << 20, 12_345_678, 1.5, true, &inner{12345, "x"}, nil, 1}
	require.Equal(t, map[string]string{"name": "a", "size": "16.0 MiB", "took": "12.35ms", "ratio": "1.50 x", "fine": "yes", "worst n": "12,345"}, texts(full))
	require.Equal(t, map[string]string{"name": "", "size": "0 B", "took": "never", "ratio": "0.00 x", "fine": "no", "worst n": "-"}, texts(&row{}))
	var names []string
	for _, c := range figures.Of[row]() {
		names = append(names, c.Name)
		if c.Name == "by" {
			require.Equal(t, "x", c.Value(full))
			require.Nil(t, c.Value(&row{}), "there is no struct")
		}
	}
	require.Equal(t, []string{"name", "size", "took_ns", "", "ok", "n", "by", "hidden"}, names)
}

func TestTextsOfFormats(t *testing.T) {
	for _, c := range []struct {
		format string
		v      any
		want   string
	}{
		{"bytes", uint64(1 << 20), "1.0 MiB"}, {"rate", 3.41e9, "3.4 GB/s"}, {"SI", uint64(2e12), "2 T"}, {"span", int64(999), "999ns"},
		{"%d B", 128, "128 B"}, {"", []int{1}, "[1]"}, {"bytes", nil, ""},
	} {
		require.Equal(t, c.want, figures.Text(c.format, c.v), "%v as %s", c.v, c.format)
	}
}
