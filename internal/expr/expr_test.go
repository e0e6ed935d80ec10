package expr_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"godwit/internal/expr"
	"godwit/internal/yaml"
)

// Where numbers have units per second, what is no such unit divides.
func TestRatesAreNumbers(t *testing.T) {
	sc := &expr.Scope{Vars: map[string]expr.Value{"s": expr.Integer(2)}, Rates: func(text string) (uint64, bool) { return yaml.Quantity("bandwidth", text) }}
	for text, want := range map[string]string{"55.3 GB/s * 2": "110600000000", "1 KiB/s": "1024", "6 KiB/ s": "3072", "8 /s": "4", "8 KiB/sx": ""} {
		v, err := sc.Eval(text)
		if want == "" {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, v.String(), text)
	}
}

func span(d time.Duration) expr.Value { return expr.Value{Kind: expr.DurationKind, Int: int64(d)} }

func TestExpressions(t *testing.T) {
	sc := &expr.Scope{
		Vars: map[string]expr.Value{"n": expr.Integer(10), "half": expr.Real(0.5), "lag": span(5000), "how": expr.Text("ring"), "at": {Kind: expr.ListKind, List: []expr.Value{expr.Integer(3), expr.Integer(5)}}},
		Of: map[string]func(string) (uint64, error){"size": func(name string) (uint64, error) {
			if name != "a" {
				return 0, errors.New("no buffer or sub-buffer above has this name")
			}
			return 4096, nil
		}},
	}
	for text, want := range map[string]string{
		"1 + 2 * 3":                "7",
		"(1 + 2) * 3":              "9",
		"64 KiB":                   "65536",
		"64KiB/2":                  "32768",
		"1.5 MB":                   "1500000",
		"0x40":                     "64",
		"1_000":                    "1000",
		"size(a)/4 - n":            "1014",
		"min(n, 3) + max(n, 3)":    "13",
		"ceil(n, 4)":               "12",
		"-n + 20 % 7":              "-4",
		"10 - 2 - 3":               "5",
		"":                         "ends where a number is wanted",
		"1 +":                      "ends where a number is wanted",
		"m":                        `no number is named "m"`,
		"size(b)":                  "size(b): no buffer or sub-buffer above has this name",
		"sin(1, 2)":                `no function is named "sin"; there are ceil, floor, if, len, log2, max, min, pow, round, size, sqrt, sum; did you mean "min"?`,
		"1 / 0":                    "division by zero",
		"4 lightyears":             `"4lightyears" is not a number of bytes`,
		"(1":                       `')' is missing`,
		"1 2":                      `unexpected "2"`,
		"9223372036854775807 + 1":  "9223372036854775807 + 1 does not fit 63 bits",
		"-9223372036854775807 - 2": "-9223372036854775807 - 2 does not fit 63 bits",
		"4611686018427387904 * 2":  "4611686018427387904 * 2 does not fit 63 bits",
		"16 EiB":                   `"16EiB" is not a number of bytes`,
		strings.Repeat("(", 200):   "nested too deep",
		"ceil(5, 0)":               "ceil(5, 0): rounds a number up to a multiple of a positive one",
		"$":                        `unexpected "$"`,

		"2.5 + 1":                             "3.5",
		"1e3 * half":                          "500.0",
		"1e-3":                                "0.001",
		"3 / 2.0":                             "1.5",
		"7 / 2":                               "3",
		"5 us + 1 ms":                         "1.005ms",
		"lag * 3 / 2":                         "7.5µs",
		"2.5 * lag":                           "12.5µs",
		"lag / 2 us":                          "2.5",
		"lag + 1":                             "5µs + 1: it is not for a duration and an integer",
		"lag * lag":                           "5µs * 5µs: it is not for a duration and a duration",
		"-lag":                                "-5µs",
		"100 s * 1e12":                        "1m40s * 1e+12 does not fit 63 bits",
		"1e308 * 10":                          "1e+308 * 10 is no real number",
		"1 / 0.0":                             "division by zero",
		"9223372036854775808":                 "9223372036854775808 does not fit 63 bits",
		"(-9223372036854775807 - 1) / -1":     "-9223372036854775808 / -1 does not fit 63 bits",
		"(-9223372036854775807 - 1) % -1":     "0",
		"2.5 % 2":                             "2.5 % 2: it is not for a real number and an integer",
		"[1, 2.5, 3 us]":                      "[1, 2.5, 3µs]",
		"[]":                                  "[]",
		"[64 KiB, n][1]":                      "10",
		"at[0] + at[1]":                       "8",
		"at + [7]":                            "[3, 5, 7]",
		"at[2]":                               "element 2 of 2: they count from 0",
		"n[0]":                                "10 is an integer, and has no elements",
		"[at]":                                "a list in a list",
		"len(at) * sum(at)":                   "16",
		"len(n)":                              "len: want a list, not an integer",
		"max(at) - min(at)":                   "2",
		"min([])":                             "min of nothing",
		"max(1, 2.5, 2)":                      "2.5",
		"max(1, lag)":                         "max: 5µs and 1: there is no order of a duration and an integer",
		"floor(2.5) + ceil(2.5) + round(2.5)": "8",
		"log2(1024)":                          "10.0",
		"10m":                                 "10000000",
		"log2(0)":                             "log2(0) is no real number",
		"sqrt(n * n)":                         "10.0",
		"pow(2, 62)":                          "4611686018427387904",
		"pow(2, 64)":                          "4294967296 * 4294967296 does not fit 63 bits",
		"pow(2, half)":                        "1.4142135623730951",
		"pow(2)":                              "pow: 1 argument, it takes 2",
		"ceil(1, 2, 3)":                       "ceil: 3 arguments, it takes 1 or 2",
		"n == 10":                             "1",
		"n < 9.5":                             "0",
		"how == \"ring\"":                     "1",
		"how != 'ring'":                       "0",
		"how == n":                            "ring and 10: there is no order of a text and an integer",
		"if(n > 5, 100, 1 / 0)":               "100",
		"if(how == 'tree', none[1], 2)":       "2",
		"if(n, 1)":                            `',' is missing`,
		"if(how, 1, 2)":                       "want a number, not a text",
		"'ring":                               `'\'' is missing`,
		strings.Repeat("[1,", 200):            "nested too deep",
		"len([" + strings.Repeat("1,", 10_000) + "1])": "lists of more than 10000 elements",
	} {
		v, err := sc.Eval(text)
		got := fmt.Sprint(v)
		if err != nil {
			got = err.Error()
		}
		require.Equal(t, want, got, text)
	}
}

// Values that stand for themselves are read again as what they are.
func TestValuesAreReadAsTheyAreWritten(t *testing.T) {
	sc := &expr.Scope{Vars: map[string]expr.Value{}}
	for _, v := range []expr.Value{expr.Integer(-3), expr.Real(2), expr.Real(-1e300), expr.Real(0.1), span(1500), span(90 * time.Second),
		{Kind: expr.ListKind, List: []expr.Value{expr.Integer(1), expr.Text("a b"), span(1)}}} {
		got, err := sc.Eval(v.String())
		if v.Kind == expr.DurationKind {
			var d time.Duration
			d, err = sc.Duration(v.String())
			got = span(d)
		}
		require.NoError(t, err, v)
		require.Equal(t, v, got)
	}
}
