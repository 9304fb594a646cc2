package fakecloudflare

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Do is what goes wrong.
type Do string

// The faults. Those of the first group strike before the request takes effect, so
// that a write has none; the others let it take effect and spoil the answer.
const (
	// Refuse answers with Status (default 500) and an error of Code and Message.
	Refuse Do = "refuse"
	// Page answers with Status (default 502) and an HTML page.
	Page Do = "page"
	// Throttle answers 429 with RetryAfter.
	Throttle Do = "throttle"
	// Redirect answers 302 to Body, by default the same path of example.com.
	Redirect Do = "redirect"
	// Hang never answers and does nothing.
	Hang Do = "hang"
	// Reset breaks the connection at once.
	Reset Do = "reset"
	// Unsuccessful answers 200, "success": false and an error of Code and Message.
	Unsuccessful Do = "unsuccessful"

	// Lose does it and breaks the connection.
	Lose Do = "lose"
	// HangAfter does it and never answers.
	HangAfter Do = "hang after"
	// PageAfter does it and answers with Status (default 502) and an HTML page.
	PageAfter Do = "page after"
	// Slow does it, and answers after Delay.
	Slow Do = "slow"
	// HTML answers 200 with a page in place of JSON.
	HTML Do = "html"
	// Truncate sends the first half of the answer.
	Truncate Do = "truncate"
	// WrongTypes sends strings for numbers and numbers for strings.
	WrongTypes Do = "wrong types"
	// Rewrite replaces Body[0] in the answer by Body[1], Body[2] by Body[3] and so
	// on.
	Rewrite Do = "rewrite"
	// Huge sends an answer of 5 MiB.
	Huge Do = "huge"
	// Stale shows the records as they were when the fault was injected.
	Stale Do = "stale"
)

// Fault is something that goes wrong with requests of the API. Of several, the one
// injected first strikes.
type Fault struct {
	Do Do
	// Which requests. Empty means all.
	On Call
	// Which requests, too: all that write, or all that do not.
	OnlyWrites, OnlyReads bool
	// How many to let pass first.
	Skip int
	// How often it strikes. 0: until Heal.
	Times int
	// For how long. 0: for good.
	For time.Duration

	// What the faults above say they use.
	Status     int
	Code       int
	Message    string
	RetryAfter string // seconds, or a date
	Delay      time.Duration
	Body       []string

	injected      time.Time
	frozen        map[string][]*stored // of Stale
	struck, saved int
}

type fault = Fault

// Inject adds a fault.
func (s *Server) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.injected = time.Now()
	if f.Do == Stale {
		f.frozen = map[string][]*stored{}
		for _, z := range s.zones {
			f.frozen[z.ID] = slices.Clone(z.list)
		}
	}
	s.faults = append(s.faults, &f)
}

// Heal removes all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// fault returns what strikes a request; one that does nothing if none does.
func (s *Server) fault(call Call) *fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = slices.DeleteFunc(s.faults, func(f *fault) bool {
		return f.Times > 0 && f.struck >= f.Times || f.For > 0 && time.Since(f.injected) >= f.For
	})
	for _, f := range s.faults {
		if f.On != "" && f.On != call || f.OnlyWrites && !call.Writes() || f.OnlyReads && call.Writes() {
			continue
		}
		if f.saved < f.Skip {
			f.saved++
			continue
		}
		f.struck++
		return f
	}
	return &fault{}
}

// before waits, and is false if the connection is to break.
func (f *fault) before(ctx context.Context, s *Server) bool {
	switch f.Do {
	case Reset:
		return false
	case Hang:
		return s.wait(ctx, -1)
	}
	return true
}

// refuse answers in place of the API.
func (f *fault) refuse() (reply, bool) {
	switch f.Do {
	case Refuse:
		return refusal(&apiError{status: cmp.Or(f.Status, 500), code: f.Code, message: f.Message}), true
	case Unsuccessful:
		return refusal(&apiError{status: 200, code: f.Code, message: f.Message}), true
	case Throttle:
		return tooMany(f.RetryAfter), true
	case Page:
		return page(cmp.Or(f.Status, 502)), true
	case Redirect:
		to := "https://example.com" + prefix
		if len(f.Body) > 0 {
			to = f.Body[0]
		}
		re := page(302)
		re.header.Set("Location", to)
		return re, true
	}
	return reply{}, false
}

// after waits, and is false if the connection is to break.
func (f *fault) after(ctx context.Context, s *Server) bool {
	switch f.Do {
	case Lose:
		return false
	case HangAfter:
		return s.wait(ctx, -1)
	case Slow:
		return s.wait(ctx, f.Delay)
	}
	return true
}

// spoil changes an answer.
func (f *fault) spoil(re reply) reply {
	switch f.Do {
	case PageAfter:
		return page(cmp.Or(f.Status, 502))
	case HTML:
		return page(200)
	case Truncate:
		re.body = re.body[:len(re.body)/2]
	case WrongTypes:
		re.body = replace(re.body, wrongTypes)
	case Rewrite:
		re.body = replace(re.body, f.Body)
	case Huge:
		re.body = append(re.body[:len(re.body)-1], `,"padding":"`+strings.Repeat("x", 5<<20)+`"}`...)
	}
	return re
}

// replace replaces each first of a pair by its second.
func replace(b []byte, pairs []string) []byte {
	for pair := range slices.Chunk(pairs, 2) {
		b = bytes.ReplaceAll(b, []byte(pair[0]), []byte(pair[len(pair)-1]))
	}
	return b
}

var wrongTypes = []string{
	`"ttl":`, `"ttl":"abc`, `,"settings"`, `","settings"`,
	`"proxied":true`, `"proxied":"yes"`, `"proxied":false`, `"proxied":"no"`,
	`"status":"active"`, `"status":7`, `"name_servers":[`, `"name_servers":[1,`,
}

func page(status int) reply {
	body := fmt.Sprintf("<html><head><title>%d %s</title></head><body><center>cloudflare</center></body></html>", status, http.StatusText(status))
	return reply{status: status, body: []byte(body), header: http.Header{"Content-Type": {"text/html; charset=UTF-8"}, "Server": {"cloudflare"}}}
}
