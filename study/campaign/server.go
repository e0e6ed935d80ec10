package campaign

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Listen says where a server listens, and whom it lets in.
type Listen struct {
	Store string // the directory in which it keeps its port and its streams
	Host  string
	Port  int    // 0 is the one that it had before, or any
	Token string // that clients have to know; "" where none is asked for
	// Of TLS: this server's certificate and key, and whose certificates clients have to show.
	Cert, Key, CA string
}

// Start starts a NATS server of one node in this process, with empty streams: nothing in them cannot be made
// again. Its port is kept over a restart, so that workers find it.
func (l *Listen) Start(ctx context.Context) (*server.Server, error) {
	streams, portFile := filepath.Join(l.Store, "streams"), filepath.Join(l.Store, "port")
	if err := os.RemoveAll(streams); err != nil {
		return nil, err
	}
	port := l.Port
	if port == 0 {
		port = server.RANDOM_PORT
		if text, err := os.ReadFile(portFile); err == nil {
			if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && n > 0 && n < 1<<16 {
				port = n
			}
		}
	}
	if port > 0 { // of another's the server would say nothing for long
		l, err := net.Listen("tcp", net.JoinHostPort(l.Host, strconv.Itoa(port)))
		if err != nil {
			return nil, err
		}
		if err = l.Close(); err != nil {
			return nil, err
		}
	}
	opt := &server.Options{ServerName: "godwit", Host: l.Host, Port: port, JetStream: true, StoreDir: streams, JetStreamMaxMemory: 16 << 20,
		JetStreamMaxStore: 1 << 40, NoSigs: true, NoLog: true, Authorization: l.Token, MaxPayload: 4 << 20, PingInterval: 2 * time.Second, MaxPingsOut: 2}
	if l.Cert != "" {
		var err error
		if opt.TLSConfig, err = server.GenTLSConfig(&server.TLSConfigOpts{CertFile: l.Cert, KeyFile: l.Key, CaFile: l.CA, Verify: true}); err != nil {
			return nil, err
		}
		opt.TLS, opt.TLSTimeout = true, 5
	}
	s, err := server.NewServer(opt)
	if err != nil {
		return nil, err
	}
	s.Start()
	for tries := 0; !s.ReadyForConnections(200 * time.Millisecond); tries++ {
		if ctx.Err() != nil || tries == 50 {
			s.Shutdown()
			return nil, errors.Join(ctx.Err(), fmt.Errorf("nobody listens at %s:%d: is the port another's?", l.Host, port))
		}
	}
	if addr, ok := s.Addr().(*net.TCPAddr); ok {
		if err = os.WriteFile(portFile, fmt.Appendln(nil, addr.Port), 0o600); err != nil {
			s.Shutdown()
			s.WaitForShutdown()
			return nil, err
		}
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, fmt.Errorf("%s: JetStream cannot use it: is the disk full?", streams)
	}
	return s, nil
}
