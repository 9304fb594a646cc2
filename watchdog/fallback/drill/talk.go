package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// Stream is the name of the streams between homes.
const Stream = "drill"

// What a stream is for, in its header.
const (
	headerDo      = "do"
	headerSession = "session"
	doBegin       = "begin" // the other home agrees to a drill, which lasts as long as the stream
	doCall        = "call"  // a control of the rehearsal asks the other one
)

// ask is what goes over a stream, answer what comes back: one JSON document each.
type ask struct {
	Do string `json:"do"`
	// Of begin.
	Plan *plan `json:"plan,omitempty"`
	// Of cut.
	For time.Duration `json:"for,omitempty"`
	// Of a call.
	Home  string `json:"home,omitempty"`
	Item  string `json:"item,omitempty"`
	Epoch uint64 `json:"epoch,omitempty"`
}

type answer struct {
	Error    string              `json:"error,omitempty"`
	Refused  bool                `json:"refused,omitempty"`
	Status   *control.PeerStatus `json:"status,omitempty"`
	Findings []control.Finding   `json:"findings,omitempty"`
	Seen     *control.Seen       `json:"seen,omitempty"`
}

// err is the error that the answer is.
func (a answer) err() error {
	switch {
	case a.Error == "":
		return nil
	case a.Refused:
		return fmt.Errorf("%w: %s", control.ErrRefused, a.Error)
	}
	return errors.New(a.Error)
}

// refusal is the answer that an error becomes; who reads it says again that it is one.
func refusal(err error) answer {
	text := strings.TrimPrefix(err.Error(), control.ErrRefused.Error()+": ")
	return answer{Error: text, Refused: errors.Is(err, control.ErrRefused)}
}

// refuse says no to another home.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: %s", control.ErrRefused, fmt.Sprintf(format, args...))
}

// plan is what two homes agree upon.
type plan struct {
	ID   string `json:"id"`
	Home string `json:"home"` // that is to be gone
	By   string `json:"by"`   // that covers it
	Real bool   `json:"real"`
	// Config must be the same at both.
	Config string `json:"config"`
	// Most is how long all of it may take: then each side ends it by itself.
	Most time.Duration `json:"most"`
}

// The most that is read of another home: of what it asks, and of all it says in a drill.
const (
	maxAskBytes    = 4 << 10
	maxAnswerBytes = 1 << 20
	maxTalkBytes   = 8 << 20
)

// talk is one side of a stream.
type talk struct {
	conn net.Conn
	in   *json.Decoder
	out  *json.Encoder
}

func newTalk(conn net.Conn, most int64) *talk {
	return &talk{conn, json.NewDecoder(io.LimitReader(conn, most)), json.NewEncoder(conn)}
}

// say sends a question and waits for the answer.
func (t *talk) say(ctx context.Context, q ask) (a answer, err error) {
	if err := ctx.Err(); err != nil {
		return a, err
	}
	stop := context.AfterFunc(ctx, func() { _ = t.conn.Close() })
	defer stop()
	if err = t.out.Encode(q); err == nil {
		err = t.in.Decode(&a)
	}
	if err != nil {
		return a, fmt.Errorf("asking the other home to %s: %w", q.Do, errors.Join(ctx.Err(), err))
	}
	return a, a.err()
}

// far is the control of a rehearsal at another home.
type far struct {
	s    *session
	home string
}

// call asks over a stream of its own.
func (f far) call(ctx context.Context, q ask) (a answer, err error) {
	if err := f.s.cut.err(); err != nil {
		return a, err
	}
	conn, err := f.s.d.cfg.Dial(ctx, f.home, map[string]string{headerDo: doCall, headerSession: f.s.plan.ID})
	if err != nil {
		return a, err
	}
	defer conn.Close()
	return newTalk(conn, maxAnswerBytes).say(ctx, q)
}

// Status implements control.Peer.
func (f far) Status(ctx context.Context) (st control.PeerStatus, err error) {
	a, err := f.call(ctx, ask{Do: "status"})
	if err == nil && a.Status == nil {
		err = errors.New("the answer holds no status")
	}
	if err == nil {
		st = *a.Status
	}
	return st, err
}

// Preflight implements control.Peer.
func (f far) Preflight(ctx context.Context, home string) ([]control.Finding, error) {
	a, err := f.call(ctx, ask{Do: "preflight", Home: home})
	return a.Findings, err
}

// Prove implements control.Peer.
func (f far) Prove(ctx context.Context, home, item string) (seen control.Seen, err error) {
	a, err := f.call(ctx, ask{Do: "prove", Home: home, Item: item})
	if err == nil && a.Seen == nil {
		err = errors.New("the answer says nothing of the item")
	}
	if err == nil {
		seen = *a.Seen
	}
	return seen, err
}

// StartItem implements control.Peer.
func (f far) StartItem(ctx context.Context, home, item string, epoch uint64) error {
	_, err := f.call(ctx, ask{Do: "start", Home: home, Item: item, Epoch: epoch})
	return err
}

// StopItem implements control.Peer.
func (f far) StopItem(ctx context.Context, home, item string, epoch uint64) error {
	_, err := f.call(ctx, ask{Do: "stop", Home: home, Item: item, Epoch: epoch})
	return err
}

// serve answers a call of the other home's control.
func (s *session) serve(ctx context.Context, from string, q ask) answer {
	if err := s.cut.err(); err != nil {
		return refusal(err)
	}
	var a answer
	var err error
	switch q.Do {
	case "status":
		var st control.PeerStatus
		st, err = s.control.Status(ctx, from)
		a.Status = &st
	case "preflight":
		a.Findings, err = s.control.Preflight(ctx, from, q.Home)
	case "prove":
		var seen control.Seen
		seen, err = s.control.Prove(ctx, from, q.Home, q.Item)
		a.Seen = &seen
	case "start":
		err = s.control.StartItem(ctx, from, q.Home, q.Item, q.Epoch)
	case "stop":
		err = s.control.StopItem(ctx, from, q.Home, q.Item, q.Epoch)
	default:
		err = refuse("%.40q is nothing that a drill asks", q.Do)
	}
	if err != nil {
		return refusal(err)
	}
	return a
}
