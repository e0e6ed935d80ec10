// Command pictures makes the pictures of the documents, in a headless browser, from what
// the command itself shows: pictures GODWIT DIR. A picture that is larger than it may be
// is an error, for every clone carries it.
package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"
)

// most is how large a picture may be, in bytes.
const most = 150 << 10

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: pictures GODWIT DIR")
		os.Exit(2)
	}
	if err := draw(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// studied is what docs/study-matmul.md sweeps, and boxes what docs/study-boxes.md does.
var studied = []string{
	"examples/matmul.yaml", "--set", "side=512", "--set", "n=2..64*2", "--set", "schedule=rows,grid,turned",
	"--machine", "docs/study/nvlink.yaml,docs/study/pcie.yaml,docs/study/switch.yaml",
}

var boxes = []string{
	"docs/study/boxes-halo.yaml", "--machine", "docs/study/boxes.yaml", "--stamps", "--memory", "4TiB",
	"--set", "px=1,16", "--set", "n=2048..262144*2", "--set", "machine.nic=12.5 GB/s,25 GB/s,50 GB/s,100 GB/s",
}

// draw makes all pictures.
func draw(godwit, dir string) (err error) {
	work, err := os.MkdirTemp("", "godwit-pictures")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	page := filepath.Join(work, "map.html")
	if out, err := exec.Command(godwit, "replay", "--example", "resnet50", "-s", "fit", "--repeats", "0", "--report", page).CombinedOutput(); err != nil {
		return fmt.Errorf("replay: %w: %s", err, out)
	}
	study := filepath.Join(work, "study.html")
	halo := filepath.Join(work, "boxes.html")
	for plot, args := range map[string][]string{study: studied, halo: boxes} {
		if out, err := exec.Command(godwit, append([]string{"sweep", "--plot", plot}, args...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("sweep: %w: %s", err, out)
		}
	}
	run := exec.Command(godwit, "run", "--example", "overlap")
	run.Env = append(os.Environ(), "COLUMNS=140")
	said, err := run.Output()
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	screen := filepath.Join(work, "run.html")
	text := `<!doctype html><meta charset="utf-8"><body style="margin:0;background:#fff"><pre style="margin:16px;font:13px/1.35 'DejaVu Sans Mono',monospace;color:#222">$ godwit run --example overlap` + "\n" + html.EscapeString(string(said)) + "</pre>"
	if err := os.WriteFile(screen, []byte(text), 0o600); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	const drawn = `document.documentElement.dataset.ready || document.documentElement.dataset.error`
	return errors.Join(
		shoot(study+"#x=n&y=elapsed_ns&by=schedule,machine&logx=1&logy=1", drawn, filepath.Join(dir, "study-time.png"), 1000, 1040),
		shoot(halo+"#x=n&y=elapsed_ns&by=px,machine.nic&logx=1&logy=1", drawn, filepath.Join(dir, "study-boxes.png"), 1000, 1040),
		shoot(page, drawn, filepath.Join(dir, "map.png"), 1100, 700),
		shoot(screen, `document.readyState === "complete"`, filepath.Join(dir, "run.png"), 1130, 900),
	)
}

// browser is the first one that there is.
func browser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no Chromium: Debian has it as chromium")
}

// shoot writes the picture of a page, once an expression of it is true.
func shoot(page, drawn, to string, width, height int) error {
	path, err := browser()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	ctx, stop := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WindowSize(width, height), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(time.Minute))...)
	defer stop()
	ctx, quit := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // events newer than the library
	defer quit()
	var png []byte
	if err := chromedp.Run(ctx, chromedp.Navigate("file://"+page),
		chromedp.Poll(drawn, nil, chromedp.WithPollingTimeout(time.Minute)), chromedp.CaptureScreenshot(&png)); err != nil {
		return fmt.Errorf("%s: %w", to, err)
	}
	if len(png) > most {
		return fmt.Errorf("%s: %d bytes: a picture has %d at most", to, len(png), most)
	}
	return os.WriteFile(to, png, 0o644)
}
