package yaml

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// quantity is a kind of number: which units it may have, and how many of the smallest
// part each is.
type quantity struct {
	such        string
	units       map[string]uint64
	text        func(uint64) string
	least, most uint64 // where a tag says no others
}

func sized(suffix string) map[string]uint64 {
	out := make(map[string]uint64)
	for i, p := range []string{"", "k", "M", "G", "T", "P", "E"} {
		ten, two := uint64(1), uint64(1)<<(10*i)
		for range i {
			ten *= 1000
		}
		out[p+suffix] = ten
		if i > 0 && strings.HasPrefix(suffix, "B") {
			out[strings.ToUpper(p)+"i"+suffix] = two
		}
	}
	if k, ok := out["k"+suffix]; ok {
		out["K"+suffix] = k
	}
	return out
}

// quantities are all of them, by the name that the tag unit gives.
var quantities = map[string]*quantity{
	"":            {"a whole number", map[string]uint64{"": 1}, func(n uint64) string { return fmt.Sprint(n) }, 0, 1 << 62},
	"bytes":       {"bytes such as 64 MiB", with(sized("B"), "", 1), func(n uint64) string { return fmt.Sprintf("%d B", n) }, 1, 1 << 60},
	"bandwidth":   {"bytes a second such as 55.3 GB/s", sized("B/s"), func(n uint64) string { return fmt.Sprintf("%d B/s", n) }, 1, 1 << 47},
	"rate":        {"operations a second such as 60 Top/s", sized("op/s"), func(n uint64) string { return fmt.Sprintf("%d op/s", n) }, 1, 1 << 62},
	"thousandths": {"a number such as 2 or 0.125", map[string]uint64{"": 1000}, func(n uint64) string { return fmt.Sprint(n / 1000) }, 0, 1 << 50},
	"time":        {"a time such as 4.7 us", map[string]uint64{"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}, func(n uint64) string { return fmt.Sprintf("%d ns", n) }, 0, 1e15},
}

func with(units map[string]uint64, unit string, n uint64) map[string]uint64 {
	units[unit] = n
	return units
}

// Quantity reads a number with a unit, exactly, as the tag unit of a field does (File.Decode).
func Quantity(unit, text string) (uint64, bool) {
	n, ok := quantities[unit].parse(text)
	if !ok || !n.IsUint64() {
		return 0, false
	}
	return n.Uint64(), true
}

var numberRule = regexp.MustCompile(`^([0-9]{1,20}(?:\.[0-9]{1,20})?)[ \t]*([A-Za-zµ/]{0,8})$`)

// parse reads a number with its unit, exactly; what is less than the smallest part
// rounds to the nearest.
func (k *quantity) parse(text string) (*big.Int, bool) {
	parts := numberRule.FindStringSubmatch(text)
	if parts == nil {
		return nil, false
	}
	unit, ok := k.units[parts[2]]
	v, valid := new(big.Rat).SetString(parts[1])
	if !ok || !valid || unit == 1 && len(k.units) == 1 && !v.IsInt() {
		return nil, false
	}
	v.Mul(v, new(big.Rat).SetUint64(unit))
	v.Add(v, big.NewRat(1, 2))
	return new(big.Int).Quo(v.Num(), v.Denom()), true
}
