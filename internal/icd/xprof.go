package icd

import (
	"os"
	"runtime/pprof"
	"time"
)

func init() {
	if f := os.Getenv("GODWIT_X_PROF"); f != "" {
		w, err := os.Create(f)
		if err == nil && pprof.StartCPUProfile(w) == nil {
			go func() {
				time.Sleep(6 * time.Second)
				pprof.StopCPUProfile()
				_ = w.Close()
			}()
		}
	}
}
