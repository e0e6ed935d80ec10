package region

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"godwit/bufalloc"
	"godwit/devices"
	"godwit/internal/suggest"
	"godwit/mem"
)

// Params sets the fields of a driver's options that have a tag "param", its name, from the parameters of
// cfg; options is a pointer to a struct. It fails with mem.ErrInvalidValue where a value is none of its
// field's, or a parameter unknown.
func Params(driver string, cfg devices.Config, options any) error {
	bad := func(key, rule string) error {
		return fmt.Errorf("driver %s: parameter %s=%q: %s: %w", driver, key, cfg.Params[key], rule, mem.ErrInvalidValue)
	}
	var known []string
	v := reflect.ValueOf(options).Elem()
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("param")
		if key == "" {
			continue
		}
		known = append(known, key)
		if text, ok := cfg.Params[key]; ok {
			if rule, err := set(v.Field(i).Addr().Interface(), text); err != nil {
				return bad(key, rule)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(cfg.Params)) {
		if !slices.Contains(known, key) {
			return bad(key, fmt.Sprintf("unknown; there are %v%s", known, suggest.For(key, known)))
		}
	}
	return nil
}

// set sets a field from a text; rule is what its values are.
func set(field any, text string) (rule string, err error) {
	switch to := field.(type) {
	case *uint64:
		*to, err = strconv.ParseUint(text, 0, 63)
		return "it must be a whole number", err
	case *int:
		if *to, err = strconv.Atoi(text); *to < 1 {
			err = strconv.ErrRange
		}
		return "it must be a positive whole number", err
	case *bool:
		*to, err = strconv.ParseBool(text)
		return "it must be true or false", err
	case *bufalloc.Strategy:
		*to, err = bufalloc.ParseStrategy(text)
		return fmt.Sprintf("the strategies are %v", bufalloc.Strategies()), err
	}
	panic(fmt.Sprintf("region: a parameter of type %T", field))
}
