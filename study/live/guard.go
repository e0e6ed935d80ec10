package live

import (
	"crypto/subtle"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// Who may look. The listener is on the loopback address, so who asks is on this computer; what may ask there beside the
// viewer is a page from elsewhere in their browser, and another user.
//
//	another user              does not know the token
//	a page, by its script     is another Origin, or from another site (Sec-Fetch-Site); without leave (CORS) it could read nothing anyway
//	a page, by a name that    sends that name as Host
//	it has bound to 127.0.0.1
//	a page, by a frame        is refused as above, and by the policy below
//
// Hosts are compared without their ports, since a port may be forwarded (ssh -L).

// policy has the page load nothing from elsewhere, be framed by nobody, and be asked by no other origin.
var policy = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; " +
		"frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
	"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
	"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
}

// guard lets through what may be answered, and refuses the rest alike.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.enter() {
			return
		}
		defer s.requests.Done()
		for name, value := range policy {
			w.Header().Set(name, value)
		}
		token, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if !loopbackName(r.Host) || !ownOrigin(r) || subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 {
			http.Error(w, "refused", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// enter has Close wait for a request, unless Close has come before it.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.requests.Add(1)
	}
	return !s.closed
}

// loopbackName reports whether a Host is one by which only this computer is called.
func loopbackName(host string) bool {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// ownOrigin reports whether nothing says that a request comes from another page.
func ownOrigin(r *http.Request) bool {
	origin, site := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
	return (len(origin) == 0 || len(origin) == 1 && origin[0] == "http://"+r.Host) &&
		(len(site) == 0 || len(site) == 1 && (site[0] == "same-origin" || site[0] == "none"))
}
