// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/report"
)

// breakRequest is the body of a request to /api/break.
type breakRequest struct {
	Store string `json:"store"`
	Name  string `json:"name"`
	Lease string `json:"lease"` // the lease that the user saw; no other lease is broken
	Why   string `json:"why"`
}

const maxBody = 32 << 10 // bytes

// breakWait limits the wait for the holder to release the lock, in a store where only the holder can.
const breakWait = 30 * time.Second

func (s *Server) breakLease(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != "POST":
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, "a lease is broken by POST")
		return
	case http.NewCrossOriginProtection().Check(r) != nil:
		refuse(w, http.StatusForbidden, "a page of another site has sent this: send it from the page of pawl serve, or without the headers Origin and Sec-Fetch-Site")
		return
	}
	var b breakRequest
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	in.DisallowUnknownFields()
	if err := in.Decode(&b); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not a request to break a lease: "+err.Error())
		return
	}
	code, err := s.doBreak(r.Context(), &b)
	if err != nil {
		refuse(w, code, strings.TrimPrefix(err.Error(), "pawl: "))
		return
	}
	replyJSON(w, report.Broken{Schema: report.Schema, Store: b.Store, Name: b.Name, Broken: []string{b.Lease}})
}

func (s *Server) doBreak(ctx context.Context, b *breakRequest) (code int, err error) {
	i := slices.IndexFunc(s.stores, func(sh *shown) bool { return sh.Name == b.Store })
	switch {
	case i < 0:
		return http.StatusNotFound, errors.New("this server shows no such store")
	case strings.TrimSpace(b.Why) == "":
		return http.StatusBadRequest, errors.New("why is missing: the holder is shown the reason")
	}
	client := s.stores[i].source.Client()
	if client == nil {
		return http.StatusServiceUnavailable, errors.New("the store does not answer")
	}
	ctx, cancel := context.WithTimeout(ctx, breakWait)
	defer cancel()
	switch err = client.Break(ctx, b.Name, b.Lease, b.Why); {
	case err == nil:
		return http.StatusOK, nil
	case errors.Is(err, pawl.ErrHeld), errors.Is(err, pawl.ErrReleased):
		return http.StatusConflict, err
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout, err
	case errors.Is(err, pawl.ErrUnavailable):
		return http.StatusServiceUnavailable, err
	case errors.Is(err, pawl.ErrDenied):
		return http.StatusForbidden, err
	}
	return http.StatusBadRequest, err
}
