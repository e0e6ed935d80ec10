package region

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/mem"
	"godwit/suggest"
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

func (p *Params) get(key string) (string, bool) {
	p.known = append(p.known, key)
	v, ok := p.m[key]
	return v, ok
}

func (p *Params) fail(key, value, rule string) {
	if p.err == nil {
		p.err = fmt.Errorf("driver %s: parameter %s=%q: %s: %w", p.driver, key, value, rule, mem.ErrInvalidValue)
	}
}

// Uint sets *to from a whole number, where the key is there.
func (p *Params) Uint(key string, to *uint64) {
	if v, ok := p.get(key); ok {
		n, err := strconv.ParseUint(v, 0, 63)
		if err != nil {
			p.fail(key, v, "it must be a whole number")
		}
		*to = n
	}
}

// Int sets *to from a positive number, where the key is there.
func (p *Params) Int(key string, to *int) {
	if v, ok := p.get(key); ok {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			p.fail(key, v, "it must be a positive whole number")
		}
		*to = n
	}
}

// Bool sets *to from true or false, where the key is there.
func (p *Params) Bool(key string, to *bool) {
	if v, ok := p.get(key); ok {
		b, err := strconv.ParseBool(v)
		if err != nil {
			p.fail(key, v, "it must be true or false")
		}
		*to = b
	}
}

// Strategy sets *to from the name of a bufalloc strategy, where the key is there.
func (p *Params) Strategy(key string, to *bufalloc.Strategy) {
	if v, ok := p.get(key); ok {
		s, err := bufalloc.ParseStrategy(v)
		if err != nil {
			p.fail(key, v, fmt.Sprintf("the strategies are %v", bufalloc.Strategies()))
		}
		*to = s
	}
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
