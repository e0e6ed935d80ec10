package scenario

// What tests from outside name.
type (
	EvictionResult = evictionResult
	FailureResult  = failureResult
	Segment        = segment
	CopyTotal      = copyTotal
	Figure         = figure
	Expectation    = expectation
	BufferDecl     = bufferDecl
)

const OpFill = opFill
