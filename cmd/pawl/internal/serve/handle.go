// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strings"

	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// headers restrict what a browser does with our answers: it shows the page with our own script
// and style only, and not in a frame of another site.
var headers = map[string]string{
	"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cache-Control":                "no-store",
}

// handle answers a request.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	for key, value := range headers {
		w.Header().Set(key, value)
	}
	switch name := r.URL.Path; {
	case !s.known(r.Host):
		refuse(w, http.StatusForbidden, "this name is not known here: start pawl serve with --host "+hostName(r.Host))
	case name == "/api/break" && s.Break:
		s.withToken(w, r, (*Server).breakLease)
	case r.Method != "GET" && r.Method != "HEAD":
		w.Header().Set("Allow", "GET, HEAD")
		refuse(w, http.StatusMethodNotAllowed, "nothing can be changed here")
	case name == "/healthz":
		reply(w, "text/plain; charset=utf-8", []byte("ok\n"))
	case routes[name] != nil:
		s.withToken(w, r, routes[name])
	case !s.page(w, name):
		refuse(w, http.StatusNotFound, "there is the page / and there are /api/locks, /api/events, /metrics and /healthz")
	}
}

// withToken calls f if the request has the token.
func (s *Server) withToken(w http.ResponseWriter, r *http.Request, f func(*Server, http.ResponseWriter, *http.Request)) {
	if !s.allowed(r.Header.Get("Authorization")) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "send the token of pawl serve --token-file: Authorization: Bearer TOKEN")
		return
	}
	if !welcome(r.Context()) {
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, "too many connections are open here: close some pages")
		return
	}
	f(s, w, r)
}

var routes = map[string]func(*Server, http.ResponseWriter, *http.Request){
	"/api/locks":  (*Server).locks,
	"/api/events": (*Server).events,
	"/metrics":    (*Server).metrics,
}

//go:embed page
var files embed.FS

// kinds has the type of a file by its extension. The types in package mime depend on the machine.
var kinds = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// page answers with a file of the page, and reports whether there is such a file. The files need no token: the page
// gets its data from /api/events.
func (s *Server) page(w http.ResponseWriter, name string) bool {
	name = cmp.Or(strings.TrimPrefix(name, "/"), "index.html")
	data, err := files.ReadFile("page/" + name)
	if err == nil {
		reply(w, kinds[path.Ext(name)], data)
	}
	return err == nil
}

// locksJSON is the answer of /api/locks.
type locksJSON struct {
	Schema int         `json:"schema"`
	Stores []storeJSON `json:"stores"`
}

type storeJSON struct {
	Store string `json:"store"`
	storeReport
	Locks []report.Lock `json:"locks"`
}

func (s *Server) locks(w http.ResponseWriter, r *http.Request) {
	s.refresh(r.Context())
	s.mu.Lock()
	out := locksJSON{Schema: report.Schema, Stores: []storeJSON{}}
	for _, sh := range s.stores {
		st := storeJSON{Store: sh.Name, storeReport: sh.report(), Locks: []report.Lock{}}
		for _, name := range sh.Names() {
			st.Locks = append(st.Locks, sh.Locks[name].Lock)
		}
		out.Stores = append(out.Stores, st)
	}
	s.mu.Unlock()
	replyJSON(w, out)
}

func replyJSON(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	reply(w, "application/json", data)
}

func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	if r.Method == "GET" {
		s.stream(r.Context(), flushed{w})
	}
}

func reply(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	_, _ = w.Write(body) // fails if the client has gone
}

func refuse(w http.ResponseWriter, code int, text string) {
	text = "pawl: " + text + "\n"
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text))
}

// known reports whether host, from a request, is a name or an address of this server. The
// check prevents DNS rebinding: another site can make its own name resolve to our address, so
// that a browser treats us as that site. That works with a name only, so known accepts
// every IP address.
func (s *Server) known(host string) bool {
	name := hostName(host)
	_, err := netip.ParseAddr(name)
	return err == nil || s.hosts[name]
}

// hostName returns host without port and brackets, in lower case, without a final dot.
func hostName(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// allowed reports whether a request with this Authorization header may see locks.
func (s *Server) allowed(authorization string) bool {
	scheme, token, _ := strings.Cut(authorization, " ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.Token))
	return s.Token == "" || strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}
