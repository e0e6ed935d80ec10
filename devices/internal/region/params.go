package region

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/internal/suggest"
	"godwit/mem"
)

// Params reads the parameters of a devices.Config.
type Params struct {
	driver string
	m      map[string]string
	known  []string
	err    error // the first
}

// NewParams reads cfg's parameters for a driver.
func NewParams(driver string, cfg devices.Config) *Params {
	return &Params{driver: driver, m: cfg.Params}
}

func (p *Params) fail(key, value, rule string) {
	if p.err == nil {
		p.err = fmt.Errorf("driver %s: parameter %s=%q: %s: %w", p.driver, key, value, rule, mem.ErrInvalidValue)
	}
}

// set reads a parameter, where the key is there; rule is what its values are.
func set[T any](p *Params, key string, to *T, rule string, parse func(string) (T, error)) {
	p.known = append(p.known, key)
	v, ok := p.m[key]
	if !ok {
		return
	}
	x, err := parse(v)
	if err != nil {
		p.fail(key, v, rule)
	}
	*to = x
}

// Uint sets *to from a whole number, where the key is there.
func (p *Params) Uint(key string, to *uint64) {
	set(p, key, to, "it must be a whole number", func(v string) (uint64, error) { return strconv.ParseUint(v, 0, 63) })
}

// Int sets *to from a positive number, where the key is there.
func (p *Params) Int(key string, to *int) {
	set(p, key, to, "it must be a positive whole number", func(v string) (int, error) {
		n, err := strconv.Atoi(v)
		if n < 1 {
			err = strconv.ErrRange
		}
		return n, err
	})
}

// Bool sets *to from true or false, where the key is there.
func (p *Params) Bool(key string, to *bool) {
	set(p, key, to, "it must be true or false", strconv.ParseBool)
}

// Strategy sets *to from the name of a bufalloc strategy, where the key is there.
func (p *Params) Strategy(key string, to *bufalloc.Strategy) {
	set(p, key, to, fmt.Sprintf("the strategies are %v", bufalloc.Strategies()), bufalloc.ParseStrategy)
}

// Err is the first error, unknown keys included.
func (p *Params) Err() error {
	for _, key := range slices.Sorted(maps.Keys(p.m)) {
		if !slices.Contains(p.known, key) {
			p.fail(key, p.m[key], fmt.Sprintf("unknown; there are %v%s", p.known, suggest.For(key, p.known)))
		}
	}
	return p.err
}
