// Package canvastest opens pages in Chromium, headless, for tests of them.
package canvastest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Browser is a browser of a test.
type Browser struct {
	ctx   context.Context
	loads int
	mu    sync.Mutex
	said  []string // protected by mu
	own   string   // requests that begin so are the page's; protected by mu
}

// Open starts a browser, with a window of so many pixels, for as long as a test runs. It skips where there is no
// Chromium.
func Open(t *testing.T, width, height int) *Browser {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("no Chromium here: the page was not loaded in a browser")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.WindowSize(width, height),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(time.Minute))...)
	t.Cleanup(stop)
	ctx, quit := chromedp.NewContext(ctx, chromedp.WithErrorf(func(string, ...any) {})) // events newer than the library
	t.Cleanup(quit)
	b := &Browser{ctx: ctx}
	chromedp.ListenTarget(ctx, b.listen)
	require.NoError(t, chromedp.Run(ctx, network.Enable()))
	return b
}

// listen notes what the console says, what is thrown, and what is asked for from elsewhere.
func (b *Browser) listen(ev any) {
	said := ""
	switch ev := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		for _, arg := range ev.Args {
			said += string(arg.Value) + arg.Description + " "
		}
	case *runtime.EventExceptionThrown:
		said = ev.ExceptionDetails.Error()
	case *network.EventRequestWillBeSent:
		b.mu.Lock()
		own := b.own != "" && strings.HasPrefix(ev.Request.URL, b.own)
		b.mu.Unlock()
		if !own && !strings.HasPrefix(ev.Request.URL, "file://") && !strings.HasPrefix(ev.Request.URL, "data:") {
			said = "request of " + ev.Request.URL
		}
	}
	if said != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.said = append(b.said, strings.TrimSpace(said))
	}
}

// Said is what the console said and what was asked for from elsewhere, and forgets it.
func (b *Browser) Said() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.said
	b.said = nil
	return said
}

// Load opens a file with a hash, waits until its script has drawn or said that it cannot, and returns the data attributes
// that the script leaves on the root element. It asks the page itself: a browser that dumps the document when it
// believes to be idle may be early on a busy machine.
func (b *Browser) Load(t *testing.T, file, hash string) (attr map[string]string) {
	t.Helper()
	b.loads++
	const drawn = `document.documentElement.dataset.ready || document.documentElement.dataset.error`
	require.NoError(t, chromedp.Run(b.ctx,
		chromedp.Navigate(fmt.Sprintf("file://%s?%d%s", file, b.loads, hash)), // else another hash of one page loads nothing
		chromedp.Poll(drawn, nil, chromedp.WithPollingTimeout(time.Minute), chromedp.WithPollingInterval(20*time.Millisecond)),
		chromedp.Evaluate(`Object.assign({}, document.documentElement.dataset)`, &attr)))
	return attr
}

// Visit opens a page that is served at an address, below which it may ask for more.
func (b *Browser) Visit(t *testing.T, address string) {
	t.Helper()
	b.mu.Lock()
	b.own = address
	b.mu.Unlock()
	b.Run(t, chromedp.Navigate(address))
}

// Until waits until a script says true.
func (b *Browser) Until(t *testing.T, script string) {
	t.Helper()
	b.Run(t, chromedp.Poll(script, nil, chromedp.WithPollingTimeout(time.Minute), chromedp.WithPollingInterval(20*time.Millisecond)))
}

// Run runs actions on the page.
func (b *Browser) Run(t *testing.T, actions ...chromedp.Action) {
	t.Helper()
	require.NoError(t, chromedp.Run(b.ctx, actions...))
}

// Call evaluates a script, waits for what it promises, and puts that into out.
func (b *Browser) Call(t *testing.T, script string, out any) {
	t.Helper()
	b.Run(t, chromedp.Evaluate(script, out, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}
