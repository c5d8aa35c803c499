// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/pawl-go/pawl/fence"
)

// service keeps the account.
type service struct {
	url    string
	server *http.Server

	mu    sync.Mutex
	value int
}

// startService starts a service, with a fence or without.
func startService(fenced bool) (*service, error) {
	s := &service{value: 100}
	var handler http.Handler = http.HandlerFunc(s.serve)
	if fenced {
		// This line is the whole fence. If the data is in a database, store the token there
		// too: see fence.Dialect.
		handler = fence.Handler(new(fence.Memory), func(r *http.Request) string { return r.URL.Path }, handler)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + l.Addr().String() + "/account/7"
	s.server = &http.Server{Handler: handler}
	go s.server.Serve(l)
	return s, nil
}

func (s *service) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPut {
		text, err := io.ReadAll(r.Body)
		n, err2 := strconv.Atoi(string(text))
		if err != nil || err2 != nil {
			http.Error(w, "not a number", http.StatusBadRequest)
			return
		}
		s.value = n
	}
	fmt.Fprint(w, s.value)
}

func (s *service) balance() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value
}

func (s *service) stop() { s.server.Close() }
