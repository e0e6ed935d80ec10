package live_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "godwit/devices/tce" // the example names it
	"godwit/mem"
	"godwit/mem/trace"
	"godwit/study/live"
	"godwit/study/machine"
	"godwit/study/page"
	"godwit/study/scenario"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served serves a page for as long as a test runs, and gives the address: of the host, and of the page below it.
func served(t *testing.T, o live.Options) (s *live.Server, host, path string) {
	t.Helper()
	o.Title = "a <test>"
	s, err := live.Serve(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		require.NoError(t, s.Close(ctx))
	})
	host, path, _ = strings.Cut(strings.TrimPrefix(s.URL(), "http://"), "/")
	return s, host, "/" + path
}

// ask sends a request with these headers, and gives the status and the body.
func ask(t *testing.T, method, host, path string, headers map[string]string) (int, string, http.Header) {
	t.Helper()
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader("pause")
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+host+path, body)
	require.NoError(t, err)
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Do(r)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	text := ""
	if !strings.HasSuffix(path, "events") || res.StatusCode != http.StatusOK {
		all, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		text = string(all)
	}
	return res.StatusCode, text, res.Header
}

// Another origin gets nothing, nor does who does not know the token, whatever is asked for.
func TestAnotherOriginGetsNothing(t *testing.T) {
	rec := page.NewWindow("a secret", "this computer", []string{"host"}, []uint64{0})
	rec.Buffer(&trace.BufferRecord{Buffer: 1, Name: "a secret", Size: 4})
	pace := live.NewPace(false)
	_, host, path := served(t, live.Options{Pictures: live.Of(rec), Pace: pace, State: func() live.State { return live.State{Stage: "a secret"} }})
	_, port, err := net.SplitHostPort(host)
	require.NoError(t, err)
	const ok, no = http.StatusOK, http.StatusForbidden
	for _, c := range []struct {
		what    string
		path    string // "" is right
		headers map[string]string
		want    int
	}{
		{"the address, as it is said", "", nil, ok},
		{"by name", "", map[string]string{"Host": "localhost:" + port}, ok},
		{"by name, in capitals", "", map[string]string{"Host": "LOCALHOST:" + port}, ok},
		{"IPv6", "", map[string]string{"Host": "[::1]:" + port}, ok},
		{"a port that is forwarded", "", map[string]string{"Host": "127.0.0.1:9"}, ok},
		{"typed", "", map[string]string{"Sec-Fetch-Site": "none"}, ok},
		{"its own script", "", map[string]string{"Origin": "http://" + host, "Sec-Fetch-Site": "same-origin"}, ok},
		{"a name that was bound anew", "", map[string]string{"Host": "evil.example:" + port}, no},
		{"a port that is none", "", map[string]string{"Host": "127.0.0.1:9.evil.example"}, no},
		{"such a name that begins well", "", map[string]string{"Host": "127.0.0.1.evil.example"}, no},
		{"another address of this computer", "", map[string]string{"Host": "10.0.0.1:" + port}, no},
		{"no name", "", map[string]string{"Host": ":" + port}, no},
		{"another origin", "", map[string]string{"Origin": "http://evil.example"}, no},
		{"another port's origin", "", map[string]string{"Origin": "http://127.0.0.1:1"}, no},
		{"another scheme's origin", "", map[string]string{"Origin": "https://" + host}, no},
		{"no origin that has a name", "", map[string]string{"Origin": "null"}, no},
		{"another name's origin", "", map[string]string{"Origin": "http://localhost:" + port}, no},
		{"a page from elsewhere", "", map[string]string{"Sec-Fetch-Site": "cross-site"}, no},
		{"another port's page", "", map[string]string{"Sec-Fetch-Site": "same-site"}, no},
		{"no token", "/", nil, no},
		{"an empty one", "//", nil, no},
		{"another token", "/AAAAAAAAAAAAAAAAAAAAAAAAAA/", nil, no},
		{"half of it", path[:len(path)/2] + "/", nil, no},
		{"in other letters", strings.ToLower(path), nil, no},
		{"as a parameter", "/?token=" + strings.Trim(path, "/"), nil, no},
	} {
		for _, x := range []struct{ method, below string }{{"GET", ""}, {"GET", "events"}, {"GET", "data"}, {"POST", "pace"}} {
			base := path
			if c.path != "" {
				base = c.path
			}
			status, text, header := ask(t, x.method, host, base+x.below, c.headers)
			require.Equal(t, c.want, status, "%s: %s %s", c.what, x.method, x.below)
			require.Empty(t, header.Get("Access-Control-Allow-Origin"))
			require.Equal(t, "no-store", header.Get("Cache-Control"))
			require.Contains(t, header.Get("Content-Security-Policy"), "frame-ancestors 'none'")
			if c.want == no {
				require.Equal(t, "refused\n", text, c.what)
			}
		}
	}
	for _, x := range []struct{ method, below string }{{"POST", ""}, {"POST", "data"}, {"GET", "pace"}, {"OPTIONS", "data"}, {"GET", "else"}, {"GET", "../data"}} {
		status, text, _ := ask(t, x.method, host, path+x.below, nil)
		require.NotEqual(t, ok, status, "%s %s", x.method, x.below)
		require.NotContains(t, text, "secret")
	}
}

// The listener is on the loopback address alone.
func TestNothingIsServedToOutside(t *testing.T) {
	_, host, _ := served(t, live.Options{})
	name, port, err := net.SplitHostPort(host)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", name)
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() {
			continue
		}
		d := net.Dialer{Timeout: time.Second}
		c, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(ip.IP.String(), port))
		if err == nil {
			require.NoError(t, c.Close())
		}
		require.Error(t, err, "%v", ip)
	}
}

// viewer connects to a stream of events, and reads none yet.
func viewer(t *testing.T, host, path string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // a test may have closed it
	_, err = io.WriteString(c, "GET "+path+"events HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	require.NoError(t, err)
	return c, bufio.NewReaderSize(c, 1<<16)
}

// event reads the next event.
func event(t *testing.T, r *bufio.Reader) (e struct {
	Stage  string
	Missed int
	Ended  bool
	Why    string
}) {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		if text, ok := strings.CutPrefix(line, "data: "); ok {
			require.NoError(t, json.Unmarshal([]byte(text), &e))
			return e
		}
	}
}

// A viewer that reads nothing for a while misses states, and is told so; neither what runs nor another viewer waits for it; and what it
// leaves behind ends with the server.
func TestASlowViewerMissesStatesAndHoldsNobodyUp(t *testing.T) {
	large := strings.Repeat("x", 4<<20) // more than a connection has room for
	rec := page.NewWindow("x", "this computer", []string{"host", "gpu0"}, []uint64{0, 0})
	s, host, path := served(t, live.Options{Pictures: live.Of(rec), State: func() live.State { return live.State{Stage: large} }})
	_, slow := viewer(t, host, path)
	_, dead := viewer(t, host, path)
	_ = dead
	var wg sync.WaitGroup
	wg.Go(func() { // what runs
		for i := range uint64(30_000) {
			rec.Command(&trace.CommandRecord{ID: i + 1, Memory: 1, Op: "launch"})
		}
	})
	quick, told := viewer(t, host, path)
	for range 3 {
		require.Equal(t, large, event(t, told).Stage)
	}
	require.NoError(t, quick.Close())
	wg.Wait()
	require.LessOrEqual(t, len(rec.Run().Events), 2*page.Window)
	missed := 0
	for range 3 {
		missed += event(t, slow).Missed
	}
	require.Positive(t, missed)
	require.NoError(t, s.End("it was enough"))
	for {
		if e := event(t, slow); e.Ended {
			require.Equal(t, "it was enough", e.Why)
			break
		}
	}
}

// There are no more viewers than there may be; one that goes makes room.
func TestViewersAreCounted(t *testing.T) {
	_, host, path := served(t, live.Options{})
	var all []net.Conn
	for range 16 {
		c, r := viewer(t, host, path)
		event(t, r)
		all = append(all, c)
	}
	status, _, _ := ask(t, "GET", host, path+"events", nil)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NoError(t, all[0].Close())
	require.Eventually(t, func() bool {
		status, _, _ := ask(t, "GET", host, path+"events", nil)
		return status == http.StatusOK
	}, 10*time.Second, 20*time.Millisecond)
}

// Close waits for viewers that take the last picture, and no longer than that.
func TestCloseGivesViewersTheLastPicture(t *testing.T) {
	rec := page.NewWindow("x", "this computer", []string{"host"}, []uint64{0})
	s, err := live.Serve(live.Options{Title: "x", Pictures: live.Of(rec)})
	require.NoError(t, err)
	host, path, _ := strings.Cut(strings.TrimPrefix(s.URL(), "http://"), "/")
	c, r := viewer(t, host, "/"+path)
	event(t, r)
	closed := make(chan error, 1)
	last := page.NewRecorder("the whole", "this computer", []string{"host"}, []uint64{0})
	require.NoError(t, s.End("", last.Run()))
	go func() { closed <- s.Close(context.Background()) }()
	require.True(t, event(t, r).Ended)
	_, text, _ := ask(t, "GET", host, "/"+path+"data", nil)
	require.Contains(t, text, `"the whole"`)
	require.Empty(t, closed, "a viewer is there")
	require.NoError(t, c.Close())
	require.NoError(t, <-closed)
	_, err = net.Dial("tcp", host)
	require.Error(t, err)
	require.NoError(t, s.Close(context.Background()), "again")
}

// A run in virtual time that was paused 100 times, at random, and let go on or by steps, gives the same.
func TestAPauseChangesNothing(t *testing.T) {
	text, err := os.ReadFile("../../examples/halo.yaml")
	require.NoError(t, err)
	run := func(step func(int64)) []byte {
		s, err := scenario.Parse(t.Context(), "halo.yaml", text, scenario.Options{})
		require.NoError(t, err)
		m, err := machine.Named("h200-nvlink", machine.Options{Devices: 4})
		require.NoError(t, err)
		res, err := scenario.Run(t.Context(), s, scenario.RunOptions{Machine: m, Seed: 7, Step: step})
		require.NoError(t, err)
		out, err := json.Marshal(res)
		require.NoError(t, err)
		return out
	}
	ends := 0
	want := run(func(int64) { ends++ })
	require.Greater(t, ends, 100)
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		at := make(map[int]bool)
		for _, i := range r.Perm(ends)[:100] {
			at[i] = true
		}
		p, i, paused := live.NewPace(false), 0, 0
		var last int64
		require.JSONEq(t, string(want), string(run(func(now int64) {
			require.GreaterOrEqual(t, now, last)
			if last = now; at[i] {
				paused++
				p.Pause()
				on := []func(){p.Go, p.Step}[r.IntN(2)]
				time.AfterFunc(time.Duration(r.IntN(300))*time.Microsecond, on)
			}
			i++
			p.Wait(t.Context(), now)
			p.Go()
		})))
		require.Equal(t, 100, paused)
	}
}

// A run that is paused ends with its context.
func TestAPausedRunCanBeCalledOff(t *testing.T) {
	p := live.NewPace(true)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	p.Wait(ctx, 1)
	p.Wait(ctx, 2)
	_, host, path := served(t, live.Options{Pace: p})
	status, text, _ := ask(t, "POST", host, path+"pace", nil)
	require.Equal(t, http.StatusOK, status, text)
	_, host, path = served(t, live.Options{})
	status, _, _ = ask(t, "POST", host, path+"pace", nil)
	require.Equal(t, http.StatusBadRequest, status)
	_, err := live.Serve(live.Options{Port: 1 << 20})
	require.Error(t, err)
	require.NotErrorIs(t, err, mem.ErrInvalidValue)
}
