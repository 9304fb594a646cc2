package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

const (
	// maxReplyBytes is most of one answer of Docker's that is read.
	maxReplyBytes = 16 << 20
	// callTime is how long Docker may take for an answer that needs no work.
	callTime = 10 * time.Second
	// startTime is how long Docker may take to start a container.
	startTime = 30 * time.Second
)

// Docker says where the engine is.
type Docker struct {
	// Host is unix:///path or tcp://host:port. Default: DOCKER_HOST, or else
	// unix:///var/run/docker.sock.
	Host string
	// CA, Cert and Key are files for TLS, all or none. They are read at each use.
	CA, Cert, Key string
}

// engine is one conversation with Docker. Each operation has its own, so that a daemon
// that was restarted, upgraded or given other certificates is no special case.
type engine struct {
	client *client.Client
}

// session connects, and agrees on the version of the API.
func (d *Docker) session(ctx context.Context) (*engine, error) {
	host := cmp.Or(d.Host, os.Getenv("DOCKER_HOST"), client.DefaultDockerHost)
	options := []client.Opt{client.WithHost(host)}
	switch files := []string{d.CA, d.Cert, d.Key}; {
	case !slices.Contains(files, ""):
		options = append(options, client.WithTLSClientConfig(d.CA, d.Cert, d.Key))
	case d.CA+d.Cert+d.Key != "":
		return nil, errors.New("TLS to docker needs three files: ca, cert and key")
	}
	// After WithHost, which sets a dialer of its own.
	options = append(options, client.WithDialContext(dialer(host)))
	c, err := client.New(options...)
	if err != nil {
		return nil, fmt.Errorf("docker at %s: %w", host, err)
	}
	s := &engine{c}
	err = call(ctx, callTime, func(ctx context.Context) error {
		_, err := c.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true})
		return err
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("docker at %s: %w", host, err)
	}
	return s, nil
}

func (s *engine) close() { _ = s.client.Close() }

// dialer bounds what one answer may hold.
func dialer(host string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if path, ok := strings.CutPrefix(host, "unix://"); ok {
			network, address = "unix", path
		}
		conn, err := (&net.Dialer{Timeout: callTime}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &boundedConn{Conn: conn}, nil
	}
}

// boundedConn reads at most maxReplyBytes after each write: each request.
type boundedConn struct {
	net.Conn
	read atomic.Int64
}

var errTooLong = fmt.Errorf("the answer is longer than %d bytes", maxReplyBytes)

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.read.Load() > maxReplyBytes {
		return 0, errTooLong
	}
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (c *boundedConn) Write(p []byte) (int, error) {
	c.read.Store(0)
	return c.Conn.Write(p)
}

// call gives a request a deadline of its own and says which one it was.
func call(ctx context.Context, within time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("docker did not answer within %v", within))
	defer cancel()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("docker's answer ends early: %w", err)
	}
	return err
}

// errNone says that Docker knows no such container.
var errNone = errors.New("there is no such container")

// nameRule is Docker's own for names of containers; what passes is safe in a URL's path.
var nameRule = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{1,254}$`)

// find returns the one container of that name or label. errNone is proven by a list in
// which it is not: a 404 may come from whatever else listens there.
func (s *engine) find(ctx context.Context, ref string) (container.InspectResponse, error) {
	var zero container.InspectResponse
	filters, ours, err := selector(ref)
	if err != nil {
		return zero, err
	}
	list, err := s.list(ctx, filters)
	if err != nil {
		return zero, err
	}
	list = slices.DeleteFunc(list, func(c container.Summary) bool { return !ours(c) })
	switch len(list) {
	case 0:
		return zero, fmt.Errorf("%w: %s", errNone, ref)
	case 1:
		return s.inspect(ctx, list[0].ID)
	}
	return zero, fmt.Errorf("%d containers match %s, want exactly one: %s", len(list), ref, names(list))
}

// selector is what to ask for, and what to look at in the answer: Docker's filter by
// name is a pattern, and knows aliases.
func selector(ref string) (client.Filters, func(container.Summary) bool, error) {
	if key, value, ok := strings.Cut(ref, "="); ok {
		if key == "" || value == "" {
			return nil, nil, fmt.Errorf("reference %q is not label=value", ref)
		}
		return client.Filters{}.Add("label", ref), func(c container.Summary) bool { return c.Labels[key] == value }, nil
	}
	if !nameRule.MatchString(ref) {
		return nil, nil, fmt.Errorf("%q can't be a container's name", ref)
	}
	ours := func(c container.Summary) bool { return slices.Contains(c.Names, "/"+ref) }
	return client.Filters{}.Add("name", "^/?"+regexp.QuoteMeta(ref)+"$"), ours, nil
}

// list returns the containers, running or not.
func (s *engine) list(ctx context.Context, filters client.Filters) ([]container.Summary, error) {
	var list []container.Summary
	err := call(ctx, callTime, func(ctx context.Context) error {
		r, err := s.client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
		list = r.Items
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	if list == nil { // "null" proves nothing
		return nil, errors.New("listing containers: docker's answer is no list")
	}
	for _, c := range list {
		if !idRule.MatchString(c.ID) {
			return nil, fmt.Errorf("listing containers: docker's answer has a container with the id %.80q", c.ID)
		}
	}
	return list, nil
}

var idRule = regexp.MustCompile(`^[0-9a-f]{64}$`)

// inspect returns the container of that id. errNone: it is gone.
func (s *engine) inspect(ctx context.Context, id string) (container.InspectResponse, error) {
	var c container.InspectResponse
	err := call(ctx, callTime, func(ctx context.Context) error {
		r, err := s.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		c = r.Container
		return err
	})
	if errdefs.IsNotFound(err) {
		return c, s.gone(ctx, id, err)
	}
	if err != nil {
		return c, fmt.Errorf("inspecting container %.12s: %w", id, err)
	}
	if c.ID != id || c.State == nil || c.HostConfig == nil || c.Config == nil {
		return c, fmt.Errorf("inspecting container %.12s: docker's answer lacks what it is about", id)
	}
	return c, nil
}

// gone makes errNone of a 404 if a list says so as well.
func (s *engine) gone(ctx context.Context, id string, cause error) error {
	list, err := s.list(ctx, client.Filters{}.Add("id", id))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(c container.Summary) bool { return c.ID == id }) {
		return fmt.Errorf("inspecting container %.12s: %w, and yet it is listed", id, cause)
	}
	return fmt.Errorf("%w: %.12s is gone", errNone, id)
}

func names(list []container.Summary) string {
	var all []string
	for _, c := range list {
		name := fmt.Sprintf("%.12s", c.ID)
		if len(c.Names) > 0 {
			name = strings.TrimPrefix(c.Names[0], "/")
		}
		if all = append(all, name); len(all) == 5 {
			return strings.Join(all, ", ") + " ..."
		}
	}
	return strings.Join(all, ", ")
}
