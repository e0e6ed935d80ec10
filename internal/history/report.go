package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// report shrinks and saves a history that failed with err on cfg, and says all
// that is needed to look into it. The file goes to the directory
// GODWIT_FAILURES, or the system's for temporary files.
func report(h *History, cfg Config, err error) string {
	cfg.Patience = 5 * time.Second
	small := shrink(h, cfg)
	dir := os.Getenv("GODWIT_FAILURES")
	if dir == "" {
		dir = os.TempDir()
	}
	name := strings.NewReplacer("/", "_", "=", "-", " ", "-").Replace(cfg.Name)
	path := filepath.Join(dir, fmt.Sprintf("history-%d-%s.json", h.Seed, name))
	saved := "saved as " + path + "; replay it with GODWIT_HISTORY=" + path
	if e := small.Save(path); e != nil {
		saved = "not saved: " + e.Error()
	}
	return fmt.Sprintf("%v\non %s: %v\nshrunk to %d operations, %s\n%s", h, cfg.Name, err, len(small.Ops), saved, small.describe())
}

// shrink returns a history with fewer operations that still fails, trying for as
// long as leaving out more may help: halves, quarters, down to single
// operations. As failures may depend on timing, each candidate gets three runs.
func shrink(h *History, cfg Config) *History {
	fails := func(ops []operation) bool {
		try := *h
		try.Ops = ops
		for range 3 {
			if _, err := Run(&try, cfg); err != nil {
				return true
			}
		}
		return false
	}
	ops := h.Ops
	for size := len(ops) / 2; size > 0; {
		left := false
		for from := 0; from < len(ops); {
			fewer := append(append([]operation(nil), ops[:from]...), ops[min(from+size, len(ops)):]...)
			if fails(fewer) {
				ops, left = fewer, true
			} else {
				from += size
			}
		}
		if !left || size > 1 {
			size /= 2
		}
	}
	small := *h
	small.Ops = ops
	return &small
}

func (h *History) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "roots %v\n", h.Roots)
	for i, v := range h.Views {
		fmt.Fprintf(&b, "view %d: %+v\n", i, v)
	}
	for _, op := range h.Ops {
		line, _ := json.Marshal(op)
		fmt.Fprintf(&b, "%s\n", line)
	}
	return b.String()
}
