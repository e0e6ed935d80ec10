package metamorphic

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Report shrinks and saves a history that failed with err on cfg, and says all
// that is needed to look into it. The file goes to the directory
// GODWIT_FAILURES, or the system's for temporary files.
func Report(h *History, cfg Config, err error) string {
	cfg.Patience = 5 * time.Second
	small := Shrink(h, cfg)
	dir := os.Getenv("GODWIT_FAILURES")
	if dir == "" {
		dir = os.TempDir()
	}
	name := strings.NewReplacer("/", "_", "=", "-", " ", "-").Replace(cfg.Name)
	path := filepath.Join(dir, fmt.Sprintf("metamorphic-%d-%s.json", h.Seed, name))
	saved := "saved as " + path + "; replay it with GODWIT_HISTORY=" + path
	if e := small.Save(path); e != nil {
		saved = "not saved: " + e.Error()
	}
	return fmt.Sprintf("%v\non %s: %v\nshrunk to %d operations, %s\n%s", h, cfg.Name, err, len(small.Ops), saved, small.describe())
}

func (h *History) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "roots %v, with content %v\n", h.Roots, h.Init)
	for i, v := range h.Views {
		fmt.Fprintf(&b, "view %d: %+v\n", i, v)
	}
	for _, op := range h.Ops {
		fmt.Fprintf(&b, "%+v\n", op)
	}
	return b.String()
}
