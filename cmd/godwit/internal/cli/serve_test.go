package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"godwit/internal/canvas/canvastest"
	"godwit/study/live"
)

// asGodwit is the environment variable that has the test binary be the command.
const asGodwit = "GODWIT_TEST_AS_GODWIT"

// serving is a verb that serves a page.
type serving struct {
	cmd     *exec.Cmd
	address string
	out     bytes.Buffer
	ended   chan error
}

// serve starts a verb, and waits for the address of its page.
func serve(t *testing.T, args ...string) *serving {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	s := &serving{cmd: exec.CommandContext(t.Context(), self, args...), ended: make(chan error, 1)}
	s.cmd.Env = append(os.Environ(), asGodwit+"=yes")
	s.cmd.Stdout = &s.out
	pipe, err := s.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.cmd.Start())
	watchdog := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Signal(syscall.SIGQUIT) })
	t.Cleanup(func() { watchdog.Stop() })
	said := bufio.NewReader(pipe)
	for s.address == "" {
		line, err := said.ReadString('\n')
		require.NoError(t, err, "%s", line)
		s.address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\w+/`).FindString(line)
	}
	go func() {
		_, _ = io.Copy(io.Discard, said)
		s.ended <- s.cmd.Wait()
	}()
	return s
}

// The page follows a run on a machine: it waits, goes on by steps, and at the end is the whole, also when the server has
// gone; what is printed is what is printed without a page.
func TestThePageFollowsARun(t *testing.T) {
	b := canvastest.Open(t, 1600, 1000)
	args := []string{"run", "--example", "halo", "--machine", "h200-nvlink", "--json"}
	want, _, err := godwit(t, args...)
	require.NoError(t, err)
	s := serve(t, append(args, "--serve", "--paused")...)
	b.Visit(t, s.address)
	b.Until(t, `page.run && document.documentElement.dataset.state && JSON.parse(document.documentElement.dataset.state).paused`)
	var before, after int64
	const now = `JSON.parse(document.documentElement.dataset.state).now`
	b.Call(t, now, &before)
	for range 3 {
		b.Run(t, chromedp.Click("#step"))
		b.Call(t, now, &after)
		b.Until(t, now+` > `+string(must(json.Marshal(after))))
	}
	var events int
	b.Call(t, `page.run.n`, &events)
	shoot(t, b, "run")
	b.Run(t, chromedp.Click("#pause")) // it is named Go on
	b.Until(t, `JSON.parse(document.documentElement.dataset.state).ended && page.run.partFrom.length > 0`)
	require.NoError(t, <-s.ended)
	require.Equal(t, want, s.out.String())
	var got struct {
		Events, Commands int
		State            string
	}
	b.Call(t, `(() => ({events: page.run.n, commands: [...page.run.kind].filter(k => page.run.kinds[k] === 'command').length, state: document.getElementById('state').textContent}))()`, &got)
	require.Greater(t, got.Events, events)
	var told struct{ Commands []any }
	require.NoError(t, json.Unmarshal([]byte(want), &told))
	require.Equal(t, len(told.Commands), got.Commands)
	require.Contains(t, got.State, "It has ended.")
	b.Call(t, `page.select(0, true).then(() => document.querySelector('#said h2').textContent)`, new(string))
	require.Empty(t, b.Said())
	shoot(t, b, "ended")
}

// The page follows a sweep: points under way by name, and done.
func TestThePageFollowsASweep(t *testing.T) {
	b := canvastest.Open(t, 1600, 1000)
	file := filepath.Join(t.TempDir(), "s.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
params: {n: {type: integer, default: 1}}
devices: [{name: d, driver: cpu, count: 2, memory: 64 MiB}]
buffers: [{name: a, size: 64 KiB, ramp: float}, {name: b, size: 64 KiB, ramp: float}, {name: c, size: 64 KiB}]
commands:
- {repeat: n, as: i, do: [{launch: matmul, queue: "d{i % 2}", global: [128, 128], args: [a, b, c, 128, 128, 128]}]}
`), 0o600))
	s := serve(t, "sweep", file, "--set", "n=4,8,40,10,12,6", "--fast", "--jobs", "1", "--serve", "--json")
	b.Visit(t, s.address)
	b.Until(t, `document.getElementById('tables').textContent.includes('under way')`)
	b.Until(t, `document.getElementById('tables').textContent.includes('as expected')`)
	shoot(t, b, "sweep")
	b.Until(t, `JSON.parse(document.documentElement.dataset.state).ended`)
	require.NoError(t, <-s.ended)
	require.Equal(t, 6, strings.Count(s.out.String(), "\n"))
	var state live.State
	b.Call(t, `JSON.parse(document.documentElement.dataset.state)`, &state)
	require.Equal(t, state.Total, state.Done)
	require.EqualValues(t, 80, state.Total, "commands")
	require.Equal(t, []live.Fact{{Value: "6 of 6", Name: "points"}}, state.Facts)
	require.Empty(t, b.Said())
	shoot(t, b, "swept")
}

// What a run makes is there while viewers stay on at the end, and stays if it is interrupted then.
func TestResultsDoNotWaitForViewers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.html")
	s := serve(t, "run", "--example", "halo", "--machine", "h200-nvlink", "--html", file, "--serve", "--paused")
	ask := func(method, path, body string) io.ReadCloser {
		r, err := http.NewRequestWithContext(t.Context(), method, s.address+path, strings.NewReader(body))
		require.NoError(t, err)
		res, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, res.StatusCode)
		return res.Body
	}
	viewer := ask(http.MethodGet, "events", "")
	require.NoError(t, ask(http.MethodPost, "pace", "go").Close())
	for told := bufio.NewReader(viewer); ; {
		line, err := told.ReadString('\n')
		require.NoError(t, err)
		if strings.Contains(line, `"ended":true`) {
			break
		}
	}
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, 4*time.Second, 10*time.Millisecond)
	require.NoError(t, s.cmd.Process.Signal(os.Interrupt))
	t.Logf("it ended: %v", <-s.ended) // interrupted, or not
	require.NoError(t, viewer.Close())
	require.FileExists(t, file)
	require.Contains(t, s.out.String(), "verified")
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// shoot takes pictures of the page, wide and narrow, for people, where GODWIT_SHOTS names a folder; it must stick out at neither.
func shoot(t *testing.T, b *canvastest.Browser, name string) {
	t.Helper()
	for _, w := range []int64{360, 1600} {
		b.Run(t, chromedp.EmulateViewport(w, 900))
		if dir := os.Getenv("GODWIT_SHOTS"); dir != "" {
			var png []byte
			b.Run(t, chromedp.Sleep(300*time.Millisecond), chromedp.CaptureScreenshot(&png))
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%d.png", name, w)), png, 0o600))
		}
		var out []string
		b.Call(t, `[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('#tables')).map(e => e.tagName + '#' + e.id)`, &out)
		require.Empty(t, out, "at %d", w)
	}
}
