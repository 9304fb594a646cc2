package fakecloudflare

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"syscall"
)

// write sends a reply, or breaks the connection.
func (re reply) write(w http.ResponseWriter) {
	if re.broken {
		panic(http.ErrAbortHandler)
	}
	maps.Copy(w.Header(), re.header)
	w.WriteHeader(re.status)
	_, _ = w.Write(re.body)
}

// roundTripper answers requests by a function instead of a connection.
type roundTripper func(context.Context, *http.Request) reply

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	re := f(r.Context(), r)
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	if re.broken {
		return nil, fmt.Errorf("reading the answer: %w", syscall.ECONNRESET)
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", re.status, http.StatusText(re.status)), StatusCode: re.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: re.header, Body: io.NopCloser(bytes.NewReader(re.body)), ContentLength: int64(len(re.body)), Request: r,
	}, nil
}
