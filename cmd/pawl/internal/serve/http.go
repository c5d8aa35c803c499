// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"
)

const (
	maxHeader = 32 << 10         // bytes
	patient   = 10 * time.Second // the time for reading a request, and for each write of a stream
	slowest   = breakWait + patient
)

// listen answers requests at l until ctx ends, with TLS if cert is not nil.
func listen(ctx context.Context, l net.Listener, cert *tls.Certificate, handle http.HandlerFunc) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l = &conns{Listener: l}
	srv := &http.Server{
		Handler: handle, DisableGeneralOptionsHandler: true,
		MaxHeaderBytes: maxHeader, ReadTimeout: patient, WriteTimeout: slowest, IdleTimeout: slowest,
		BaseContext: func(net.Listener) context.Context { return ctx }, // so that streams end when ctx ends
		ConnContext: withConn,
		ErrorLog:    log.New(io.Discard, "", 0), // discard: the clients see the errors
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: 16},
	}
	ended := make(chan error, 1)
	go func() {
		if cert == nil {
			ended <- srv.Serve(l)
			return
		}
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*cert}}
		ended <- srv.ServeTLS(l, "", "")
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer stop()
	if srv.Shutdown(grace) != nil {
		srv.Close() // close the connections that are still open
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// flushed is a response that sends each write at once, and fails if the client does not read it in time.
type flushed struct {
	http.ResponseWriter
}

func (f flushed) Write(b []byte) (int, error) {
	c := http.NewResponseController(f.ResponseWriter)
	if err := c.SetWriteDeadline(time.Now().Add(patient)); err != nil {
		return 0, err
	}
	n, err := f.ResponseWriter.Write(b)
	if err == nil {
		err = c.Flush()
	}
	return n, err
}

// Listen listens at the address. On network unix, only the owner can use the socket, and Listen
// replaces a socket at which nobody listens any more.
func Listen(network, address string) (net.Listener, error) {
	if network != "unix" {
		return net.Listen(network, address)
	}
	l, err := listenPrivately(address)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return l, err
	}
	if c, dialed := net.Dial(network, address); dialed == nil {
		c.Close()
		return nil, err
	} else if !errors.Is(dialed, syscall.ECONNREFUSED) {
		return nil, err
	}
	if st, gone := os.Lstat(address); gone != nil || st.Mode()&os.ModeSocket == 0 {
		return nil, err
	}
	if err := os.Remove(address); err != nil {
		return nil, err
	}
	return listenPrivately(address)
}
