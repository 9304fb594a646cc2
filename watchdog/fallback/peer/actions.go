package peer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/watchdog/fallback/control"
)

// Bounds of a request and of an answer.
const (
	MaxRequestBytes = 64 << 10
	MaxAnswerBytes  = 1 << 20
)

// maxNameBytes is the longest name of a home, item or stream.
const maxNameBytes = 128

// Action is something that homes may ask of each other.
type Action string

// The actions, all there are: the methods of [control.Service].
const (
	ActionStatus    Action = "status"
	ActionPreflight Action = "preflight"
	ActionProve     Action = "prove"
	ActionStart     Action = "start"
	ActionStop      Action = "stop"
)

// request is what an action is asked for.
type request struct {
	Home  string `json:"home,omitempty"`
	Item  string `json:"item,omitempty"`
	Epoch uint64 `json:"epoch,omitempty"`
}

// reply is the answer: one of the two.
type reply struct {
	Result json.RawMessage `json:"result,omitempty"`
	Error  *Error          `json:"error,omitempty"`
}

// rule is how an action is done. within is how long it may take; a start waits until the
// item is well, and its own budget is shorter.
type rule struct {
	within     time.Duration
	home, item bool // are needed
	do         func(ctx context.Context, s control.Service, from string, r request) (any, error)
}

var rules = map[Action]rule{
	ActionStatus: {10 * time.Second, false, false, func(ctx context.Context, s control.Service, from string, _ request) (any, error) {
		return s.Status(ctx, from)
	}},
	ActionPreflight: {time.Minute, true, false, func(ctx context.Context, s control.Service, from string, r request) (any, error) {
		return s.Preflight(ctx, from, r.Home)
	}},
	ActionProve: {30 * time.Second, true, true, func(ctx context.Context, s control.Service, from string, r request) (any, error) {
		return s.Prove(ctx, from, r.Home, r.Item)
	}},
	ActionStart: {15 * time.Minute, true, true, func(ctx context.Context, s control.Service, from string, r request) (any, error) {
		return struct{}{}, s.StartItem(ctx, from, r.Home, r.Item, r.Epoch)
	}},
	ActionStop: {10 * time.Minute, true, true, func(ctx context.Context, s control.Service, from string, r request) (any, error) {
		return struct{}{}, s.StopItem(ctx, from, r.Home, r.Item, r.Epoch)
	}},
}

// Answer does for the home from what a request asks, and writes the answer: a command of
// the kind "edge-watchdog fallback peer <action>" for [SSH]. Whoever calls it says who
// from is. The error is about in and out; what went wrong with the action is in the answer.
func Answer(ctx context.Context, s control.Service, from string, action Action, in io.Reader, out io.Writer) error {
	var result any
	body, err := readRequest(in)
	if err == nil {
		result, err = perform(ctx, s, from, action, body)
	}
	text, _ := encode(result, err)
	_, err = out.Write(append(text, '\n'))
	return err
}

// Forced returns the action of a command that ssh was asked to run, as a forced command
// finds it in SSH_ORIGINAL_COMMAND: its last word, if it is an action, after
// "fallback peer". All else is refused.
func Forced(original string) (Action, error) {
	words := strings.Fields(original)
	if n := len(words); n >= 3 && slices.Equal(words[n-3:n-1], []string{"fallback", "peer"}) {
		if _, ok := rules[Action(words[n-1])]; ok {
			return Action(words[n-1]), nil
		}
	}
	return "", refuse(CodeUnknownAction, "the command %.100q is not on the list", original)
}

// readRequest returns the body, unless it is too long.
func readRequest(in io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(in, MaxRequestBytes+1))
	if err != nil {
		return nil, refuse(CodeBadRequest, "reading the request: %v", err)
	}
	if len(body) > MaxRequestBytes {
		return nil, refuse(CodeTooLarge, "the request has more than %d bytes", MaxRequestBytes)
	}
	return body, nil
}

// perform does an action. It contains panics: one request is no reason to take a home's
// other services down.
func perform(ctx context.Context, s control.Service, from string, action Action, body []byte) (result any, err error) {
	rule, known := rules[action]
	if !known {
		return nil, refuse(CodeUnknownAction, "there is no action %.100q", action)
	}
	r, err := decodeRequest(body, rule)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, rule.within, refuse(CodeDeadline, "%s took longer than %v", action, rule.within))
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			result, err = nil, &panicError{p}
		}
	}()
	result, err = rule.do(ctx, s, from, r)
	if late, ok := errors.AsType[*Error](context.Cause(ctx)); ok && err != nil {
		return nil, late
	}
	if err != nil {
		return nil, serviceError(err)
	}
	return result, nil
}

// panicError is not told to others.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

func decodeRequest(body []byte, rule rule) (request, error) {
	var r request
	if err := decodeOne(body, &r); err != nil {
		return r, refuse(CodeBadRequest, "reading the request: %v", err)
	}
	if rule.home && !validName(r.Home) {
		return r, refuse(CodeBadRequest, "%.100q can't be a home", r.Home)
	}
	if rule.item && !validName(r.Item) {
		return r, refuse(CodeBadRequest, "%.100q can't be an item", r.Item)
	}
	return r, nil
}

// decodeOne takes one JSON object. Fields that this version does not know are those of a
// newer one; text after the object is nobody's.
func decodeOne(text []byte, v any) error {
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || trimmed[0] != '{' {
		return errors.New("it is no JSON object")
	}
	return json.Unmarshal(text, v)
}

// validName keeps what can't be a name out of logs, paths and certificates.
func validName(s string) bool {
	if s == "" || len(s) > maxNameBytes {
		return false
	}
	for _, r := range s {
		if r <= ' ' || r == 0x7f || r == '/' || r == '\\' || r == 0xfffd || r >= 0x80 && r < 0xa0 {
			return false
		}
	}
	return true
}

// encode makes the answer, and the error in it if there is one.
func encode(result any, err error) ([]byte, *Error) {
	var e *Error
	if err == nil {
		var text []byte
		text, err = json.Marshal(result)
		if err == nil && len(text) > MaxAnswerBytes {
			err = fmt.Errorf("the answer has %d bytes, more than %d", len(text), MaxAnswerBytes)
		}
		if err == nil {
			return must(json.Marshal(reply{Result: text})), nil
		}
	}
	e = toldError(err)
	return must(json.Marshal(reply{Error: e})), e
}

// toldError is what the other home is told of an error.
func toldError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return serviceError(err)
}

// serviceError is what the other home is told of an error of the service's. It may hold
// an Error that a third home gave: that one's code is not ours.
func serviceError(err error) *Error {
	reason := err.Error()
	if len(reason) > 2000 {
		reason = strings.ToValidUTF8(reason[:2000], "") + " ..."
	}
	switch _, panicked := errors.AsType[*panicError](err); {
	case panicked:
		return refuse(CodeInternal, "a fault of the program: its log has more")
	case errors.Is(err, control.ErrRefused):
		return refuse(CodeRefused, "%s", reason)
	case errors.Is(err, context.DeadlineExceeded):
		return refuse(CodeDeadline, "%s", reason)
	}
	return refuse(CodeFailed, "%s", reason)
}

// must is for values that can always be written as JSON.
func must(text []byte, err error) []byte {
	if err != nil {
		return []byte(`{"error":{"code":"internal","reason":"the answer can't be written"}}`)
	}
	return text
}
