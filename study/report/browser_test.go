package report_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// browser finds Chromium or skips.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium here: the page was not loaded in a browser")
	return ""
}

// load opens the page in a headless browser, waits until its script has drawn or
// said that it cannot, and returns the data attributes that the script leaves on the
// root element, and what the console said. It asks the page itself: a browser that
// dumps the document when it believes to be idle may be early on a busy machine.
func load(t *testing.T, file, hash string) (attr map[string]string, console string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ctx, stop := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser(t)), chromedp.WindowSize(1300, 1200),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(time.Minute))...)
	defer stop()
	ctx, quit := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // events newer than the library
	defer quit()
	lines := make(chan string, 100)
	chromedp.ListenTarget(ctx, func(ev any) {
		var said string
		switch ev := ev.(type) {
		case *runtime.EventConsoleAPICalled:
			for _, arg := range ev.Args {
				said += string(arg.Value) + arg.Description + " "
			}
		case *runtime.EventExceptionThrown:
			said = ev.ExceptionDetails.Error()
		default:
			return
		}
		select {
		case lines <- said:
		default:
		}
	})
	const drawn = `document.documentElement.dataset.ready || document.documentElement.dataset.error`
	require.NoError(t, chromedp.Run(ctx,
		chromedp.Navigate("file://"+file+hash),
		chromedp.Poll(drawn, nil, chromedp.WithPollingTimeout(time.Minute), chromedp.WithPollingInterval(20*time.Millisecond)),
		chromedp.Evaluate(`Object.assign({}, document.documentElement.dataset)`, &attr)))
	for {
		select {
		case said := <-lines:
			console += strings.TrimSpace(said) + "\n"
		default:
			return attr, console
		}
	}
}
