package stream

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/edgeward/edgeward/relay/hello"
	"github.com/edgeward/edgeward/relay/proxyproto"
	"github.com/edgeward/edgeward/relay/session"
)

const (
	headSize  = 4 << 10 // room for most heads; larger ones grow
	alertTime = time.Second
)

// welcome reads what opens an admitted connection, within one deadline, and
// serves it.
func (v *visit) welcome(proxied bool) session.Reason {
	limit := cmp.Or(v.rules.HelloTime, session.DefaultHelloTime)
	late := time.AfterFunc(limit, func() { v.end(session.HelloTimeout, nil) })
	defer late.Stop()
	if proxied {
		if why := v.readHeader(); why != session.None {
			return why
		}
	}
	route := v.rules.Plain
	if route == nil {
		var why session.Reason
		if route, why = v.readHello(); why != session.None {
			return why
		}
	} else {
		v.plain, v.pinned = true, true
	}
	late.Stop()
	return v.serve(route)
}

// readMore appends what the visitor sends to the head.
func (v *visit) readMore() session.Reason {
	v.head = slices.Grow(v.head, headSize)
	n, err := v.conn.Read(v.head[len(v.head):cap(v.head)])
	v.head = v.head[:len(v.head)+n]
	switch {
	case n > 0 || err == nil:
		return session.None
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return session.HelloAborted
	}
	return session.ClientReset
}

// readHeader takes the PROXY header off the head and admits its source.
func (v *visit) readHeader() session.Reason {
	for {
		if why := v.readMore(); why != session.None {
			return why
		}
		h, n, err := proxyproto.Parse(v.head)
		if err != nil {
			return session.BadProxyHeader
		}
		if n == 0 {
			continue
		}
		v.head = v.head[n:]
		if h.Source.IsValid() {
			v.note(func() { v.source, v.local = h.Source, h.Destination })
		}
		return v.listener.AdmitSource(&v.lease, v.source.Addr(), session.Now())
	}
}

// readHello reads up to the end of the ClientHello and returns its route.
func (v *visit) readHello() (*session.Route, session.Reason) {
	var parser hello.Parser
	parser.Reset(v.rules.HelloBytes)
	for {
		if len(v.head) > 0 {
			info, done, err := parser.Parse(v.head)
			if err != nil {
				return nil, helloReason(err)
			}
			if done {
				return v.takeHello(&info)
			}
		}
		if why := v.readMore(); why != session.None {
			return nil, why
		}
	}
}

func (v *visit) takeHello(info *hello.Info) (*session.Route, session.Reason) {
	v.noteHello(info)
	v.pinned = len(v.head) > info.Bytes
	route, why := v.rules.Route(info)
	if why != session.None && why != session.Outage && v.rules.Unknown == session.SendAlert {
		_ = v.conn.SetWriteDeadline(time.Now().Add(alertTime))
		_, _ = v.conn.Write(session.UnrecognizedName)
	}
	return route, why
}

func helloReason(err error) session.Reason {
	if he, ok := errors.AsType[*hello.Error](err); ok {
		return session.HelloReason(he.Reason)
	}
	return session.BadHello
}
