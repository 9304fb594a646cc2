package edge

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/mholt/caddy-l4/layer4"

	"github.com/edgeward/edgeward/relay/hello"
	"github.com/edgeward/edgeward/relay/names"
)

func init() {
	caddy.RegisterModule(MatchSNI{})
}

// MatchSNI matches TLS connections by the server name that the visitor asks for.
// It reads a ClientHello that is spread over several TCP segments and TLS
// records, once for all such matchers of a connection, and it looks the name up
// in a table: ten thousand names cost what one does.
//
// Once the first bytes show a TLS handshake it waits for the whole ClientHello,
// up to the layer4 server's matching timeout, so that routes behind it are never
// judged by half a ClientHello.
//
// It sets the placeholders {l4.edge.server_name}, {l4.edge.alpn} (the protocols
// offered, with commas between) and {l4.edge.ech} (whether the ClientHello has an
// encrypted one inside).
type MatchSNI struct {
	// The names: "example.com", "*.example.com", or "*" for any name.
	Names []string `json:"names,omitempty"`
	// Match a ClientHello without a server name too.
	NoName bool `json:"no_name,omitempty"`
	// How deep a wildcard reaches: "any" number of labels, or "one".
	// Default: "any".
	Wildcard string `json:"wildcard,omitempty"`
	// How many bytes a ClientHello may take. Default: 65536.
	HelloMaxBytes int `json:"hello_max_bytes,omitempty"`

	table *names.Table[bool]
}

// CaddyModule returns the Caddy module information.
func (MatchSNI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "layer4.matchers.edge_sni", New: func() caddy.Module { return new(MatchSNI) }}
}

// Provision builds the table.
func (m *MatchSNI) Provision(ctx caddy.Context) error {
	depth, err := wildcardDepth(m.Wildcard)
	if err != nil {
		return err
	}
	var entries []names.Entry[bool]
	for _, name := range m.Names {
		if name, err = expand(name); err != nil {
			return err
		}
		entries = append(entries, names.Entry[bool]{Pattern: name, Value: true, Depth: depth, Where: "edge_sni"})
	}
	if len(entries) == 0 && !m.NoName {
		return errors.New("edge_sni needs a name")
	}
	m.table, _, err = names.New(entries)
	return err
}

// Match reports whether the visitor asks for one of the names.
func (m *MatchSNI) Match(cx *layer4.Connection) (bool, error) {
	h, err := helloOf(cx, m.HelloMaxBytes)
	switch {
	case errors.Is(err, layer4.ErrConsumedAllPrefetchedBytes):
		return false, err
	case err != nil:
		return false, nil
	case h.ServerName == "":
		return m.NoName, nil
	}
	_, _, ok := m.table.Lookup(h.ServerName)
	return ok, nil
}

// UnmarshalCaddyfile sets up the matcher from Caddyfile tokens. Syntax:
//
//	edge_sni [no_name] [wildcard any|one] <name>...
func (m *MatchSNI) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		for args := d.RemainingArgs(); len(args) > 0; args = args[1:] {
			switch {
			case args[0] == "no_name":
				m.NoName = true
			case args[0] == "wildcard" && len(args) > 1:
				m.Wildcard = args[1]
				args = args[1:]
			default:
				m.Names = append(m.Names, args[0])
			}
		}
		if d.NextBlock(d.Nesting()) {
			return d.Err("edge_sni has no block")
		}
	}
	if len(m.Names) == 0 && !m.NoName {
		return d.Err("edge_sni needs a name")
	}
	return nil
}

// helloVar is the connection variable with what was read of the ClientHello.
const helloVar = "edge.hello"

// readHello is a ClientHello, or why there is none.
type readHello struct {
	hello.Info
	err error
}

// helloOf returns the ClientHello of a connection, which is read once. It
// returns layer4.ErrConsumedAllPrefetchedBytes while there is not a byte.
func helloOf(cx *layer4.Connection, most int) (hello.Info, error) {
	if known, ok := cx.GetVar(helloVar).(*readHello); ok {
		return known.Info, known.err
	}
	first := cx.MatchingBytes()
	if len(first) == 0 {
		return hello.Info{}, layer4.ErrConsumedAllPrefetchedBytes
	}
	var parser hello.Parser
	parser.Reset(most)
	info, done, err := parser.Parse(first)
	if !done && err == nil {
		info, err = gather(cx, &parser, first)
	}
	cx.SetVar(helloVar, &readHello{info, err})
	if err == nil {
		expose(cx, info)
	}
	return info, err
}

// expose makes the placeholders known. They are worked out when one is used.
func expose(cx *layer4.Connection, info hello.Info) {
	cx.Replacer().Map(func(key string) (any, bool) {
		switch key {
		case "l4.edge.server_name":
			return info.ServerName, true
		case "l4.edge.alpn":
			return strings.Join(info.Protocols, ","), true
		case "l4.edge.ech":
			return info.ECH, true
		}
		return nil, false
	})
}

// gather reads the rest of a ClientHello. layer4 has no way to give bytes back to
// its buffer, and its router gives up on a connection when a later route says no
// while an earlier one waits; so the rest is read here and played again to
// whoever reads the connection next.
func gather(cx *layer4.Connection, parser *hello.Parser, first []byte) (info hello.Info, err error) {
	ahead := &readAhead{Conn: cx.Conn}
	cx.Conn = ahead
	whole := append(make([]byte, 0, 4096), first...)
	chunk := make([]byte, 4096)
	for {
		n, rerr := ahead.Conn.Read(chunk)
		whole = append(whole, chunk[:n]...)
		ahead.pending = whole[len(first):]
		if n > 0 {
			info, done, err := parser.Parse(whole)
			if done || err != nil {
				return info, err
			}
		}
		if rerr != nil {
			ahead.err = rerr
			return info, fmt.Errorf("reading ClientHello: %w", rerr)
		}
	}
}

// readAhead is a connection of which more was read than layer4 knows.
type readAhead struct {
	net.Conn
	pending []byte
	err     error // of the read that ended the gathering
}

// Read implements io.Reader.
func (r *readAhead) Read(b []byte) (int, error) {
	if len(r.pending) > 0 {
		n := copy(b, r.pending)
		r.pending = r.pending[n:]
		return n, nil
	}
	if err := r.err; err != nil {
		r.err = nil
		return 0, err
	}
	return r.Conn.Read(b)
}

// CloseWrite passes a half-close on, where the connection has one.
func (r *readAhead) CloseWrite() error {
	if half, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// unread returns all that has been read of a connection and not used, and the
// connection below.
func unread(cx *layer4.Connection) (head []byte, below net.Conn) {
	ahead, ok := cx.Conn.(*readAhead)
	if !ok {
		return cx.MatchingBytes(), cx.Conn
	}
	head = append(head, cx.MatchingBytes()...)
	return append(head, ahead.pending...), ahead.Conn
}

// Interface guards.
var (
	_ layer4.ConnMatcher    = (*MatchSNI)(nil)
	_ caddy.Provisioner     = (*MatchSNI)(nil)
	_ caddyfile.Unmarshaler = (*MatchSNI)(nil)
	_ io.Reader             = (*readAhead)(nil)
)
