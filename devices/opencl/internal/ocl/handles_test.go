//go:build cgo

package ocl

import (
	"reflect"
	"testing"

	"github.com/jgillich/go-opencl/cl"
	"github.com/stretchr/testify/require"
)

func TestHandlesAreWhereTheyAreTaken(t *testing.T) {
	for name, typ := range map[string]reflect.Type{
		"clContext": reflect.TypeFor[cl.Context](), "clQueue": reflect.TypeFor[cl.CommandQueue](),
		"clProgram": reflect.TypeFor[cl.Program](), "id": reflect.TypeFor[cl.Device](),
	} {
		f := typ.Field(0)
		require.Equal(t, name, f.Name)
		require.Zero(t, f.Offset)
		require.Equal(t, reflect.TypeFor[uintptr]().Size(), f.Type.Size())
	}
}
