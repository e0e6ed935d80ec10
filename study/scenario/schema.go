package scenario

import (
	"encoding/json"
	"strings"
)

// Schema is the JSON Schema (draft 2020-12) of scenarios, made of the shapes that the
// loader reads by. Editors complete and check scenarios with it. What it refuses the
// loader refuses, too; the loader's other rules are not of form. Words and numbers may
// be expressions, whose values no schema knows: it takes them all.
func Schema() []byte {
	defs := make(map[string]any)
	for _, s := range shapes() {
		defs[defName(s.name)] = s.schema()
	}
	out, err := json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "A scenario of Godwit",
		"$ref":    ref("scenario")["$ref"],
		"$defs":   defs,
	}, "", " ")
	if err != nil {
		panic(err) // maps, lists and words
	}
	return append(out, '\n')
}

func defName(shape string) string { return strings.ReplaceAll(shape, " ", "-") }

func ref(shape string) map[string]any { return map[string]any{"$ref": "#/$defs/" + defName(shape)} }

// schema is that of mappings of a shape.
func (s *shape) schema() map[string]any {
	if s.variants != nil {
		var all []any
		for _, v := range s.variants {
			all = append(all, ref(v))
		}
		return map[string]any{"anyOf": all}
	}
	out := map[string]any{"type": "object", "additionalProperties": false}
	properties, required := make(map[string]any), []string{}
	for _, k := range s.keys {
		p := k.form.schema()
		if k.what != "" {
			p["description"] = k.what
		}
		properties[k.name] = p
		if k.need {
			required = append(required, k.name)
		}
	}
	if s.rest != nil {
		out["additionalProperties"] = s.rest.schema()
		out["propertyNames"] = map[string]any{"not": map[string]any{"const": "<<"}}
	} else {
		out["properties"], out["required"] = properties, required
	}
	if s.one {
		out["minProperties"], out["maxProperties"] = 1, 1
	}
	if s.some != nil {
		var any1 []any
		for _, k := range s.some {
			any1 = append(any1, map[string]any{"required": []string{k}})
		}
		out["anyOf"] = any1
	}
	return out
}

// schema is that of what has a form.
func (f *form) schema() map[string]any {
	all := f.alternatives()
	if f.list != nil {
		all = append(all, map[string]any{"type": "array", "items": f.list.schema()})
		if !f.strict { // one alone, or none
			all = append(append([]any{}, f.list.alternatives()...), append(all, map[string]any{"type": "null"})...)
		}
	}
	if f.null {
		all = append(all, map[string]any{"type": "null"})
	}
	return anyOf(all)
}

// alternatives are the schemas of what a form may be, but for lists and nothing.
func (f *form) alternatives() (out []any) {
	switch f.scalar {
	case word:
		out = append(out, map[string]any{"type": []string{"string", "number", "boolean"}})
	case expression:
		out = append(out, map[string]any{"type": []string{"number", "string"}})
	case enumerated:
		var all []any
		for _, w := range f.words {
			all = append(all, w)
			if w == "true" || w == "false" {
				all = append(all, w == "true")
			}
		}
		out = append(out, map[string]any{"enum": all}, map[string]any{"type": "string", "pattern": `\{`})
	}
	if f.object != "" {
		out = append(out, ref(f.object))
	}
	return out
}

func anyOf(all []any) map[string]any {
	if len(all) == 1 {
		out := make(map[string]any)
		for k, v := range all[0].(map[string]any) {
			out[k] = v
		}
		return out
	}
	return map[string]any{"anyOf": all}
}
