package cli

import (
	"context"
	"errors"
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

// serve serves the page, if it is wanted, until end is called: err is what came of what ran, and last are its last pictures.
func (f *serveFlag) serve(ctx context.Context, o live.Options) (end func(err error, last ...*page.Run), err error) {
	if !f.wanted() {
		return func(error, ...*page.Run) {}, nil
	}
	if o.Port, err = strconv.Atoi(f.port); err != nil || o.Port < 0 || o.Port > 65535 {
		return nil, fmt.Errorf("--serve=%s: want a port, 0 to 65535", f.port)
	}
	s, err := live.Serve(o)
	if err != nil {
		return nil, failed{fmt.Errorf("--serve: %w", err)}
	}
	say("a page of it is at %s until it has ended", s.URL())
	return func(err error, last ...*page.Run) {
		why := ""
		if err != nil {
			why = "It ended with an error: " + endOf(ctx, err).Error()
		}
		if err := errors.Join(s.End(why, last...), s.Close(ctx)); err != nil {
			say("--serve: %v", err)
		}
	}, nil
}
