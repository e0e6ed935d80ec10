package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"godwit/study/live"
	"godwit/study/page"
)

// serveFlag asks for a page of what runs while it runs (package live).
type serveFlag struct{ port string }

func (f *serveFlag) register(fl *pflag.FlagSet) {
	fl.StringVar(&f.port, "serve", "", "while it runs, serve a page of how it goes on the loopback address, at any port or at `PORT`; standard error says where")
	fl.Lookup("serve").NoOptDefVal = "0"
}

func (f *serveFlag) wanted() bool { return f.port != "" }

// served is a page that is served, or none.
type served struct {
	ctx context.Context // the verb's
	s   *live.Server    // nil where no page is wanted
}

// serve serves the page, if it is wanted. end and close must follow.
func (f *serveFlag) serve(ctx context.Context, o live.Options) (p *served, err error) {
	p = &served{ctx: ctx}
	if !f.wanted() {
		return p, nil
	}
	if o.Port, err = strconv.Atoi(f.port); err != nil || o.Port < 0 || o.Port > 65535 {
		return nil, fmt.Errorf("--serve=%s: want a port, 0 to 65535", f.port)
	}
	if p.s, err = live.Serve(o); err != nil {
		return nil, failed{fmt.Errorf("--serve: %w", err)}
	}
	say("a page of it is at %s until it has ended", p.s.URL())
	return p, nil
}

// end tells viewers that what ran has ended: err is what came of it, and last are its last pictures.
func (p *served) end(err error, last ...*page.Run) {
	if p.s == nil {
		return
	}
	why := ""
	if err != nil {
		why = "It ended with an error: " + endOf(p.ctx, err).Error()
	}
	if err := p.s.End(why, last...); err != nil {
		say("--serve: %v", err)
	}
}

// close waits for viewers who take the last picture. It comes when results are where they belong.
func (p *served) close() {
	if p.s == nil {
		return
	}
	if err := p.s.Close(p.ctx); err != nil {
		say("--serve: %v", err)
	}
}
