package backend_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv("POCL_DEVICES") == "" {
		_ = os.Setenv("POCL_DEVICES", "pthread pthread")
	}
	if os.Getenv("GODWIT_TEST_CHILD") != "" {
		child() // does not return
	}
	goleak.VerifyTestMain(m)
}
