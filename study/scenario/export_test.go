package scenario

import (
	"context"

	"godwit/internal/input"
	"godwit/internal/yaml"
)

// Load is Parse of the named file.
func Load(ctx context.Context, file string, opt Options) (*Scenario, error) {
	data, err := input.ReadAny(ctx, file, yaml.MaxBytes)
	if err != nil {
		return nil, err
	}
	return Parse(ctx, file, data, opt)
}

// What tests from outside name.
type (
	EvictionResult = evictionResult
	Rival          = rival
	FailureResult  = failureResult
	Segment        = segment
	CopyTotal      = copyTotal
	Figure         = figure
	Expectation    = expectation
	BufferDecl     = bufferDecl
)

const OpFill = opFill
