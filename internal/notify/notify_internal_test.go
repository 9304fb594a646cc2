package notify

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestPlainClient: no proxy from the environment sees a message.
func TestPlainClient(t *testing.T) {
	c := newClient(time.Second, nil)
	if tr, ok := c.Transport.(*http.Transport); !ok || tr.Proxy != nil {
		t.Errorf("the transport is %+v", c.Transport)
	}
	if c.Timeout != time.Second {
		t.Errorf("the timeout is %s", c.Timeout)
	}
}

func TestJudge(t *testing.T) {
	s := &shout{scheme: "zulip"}
	for _, tc := range []struct {
		name      string
		err       error
		want      string
		permanent bool
	}{
		{"panic", s.guard(func() error { var r *http.Response; return r.Body.Close() }), "service zulip failed by a fault of its own", false},
		{"panic that tells", s.guard(func() error { panic("hunter2") }), "service zulip failed by a fault of its own", false},
		{"status", errors.New("failed: unexpected status 401 Unauthorized at https://x/hunter2"), "status 401", true},
		{"code", errors.New(`got HTTP code: "503" hunter2`), "status 503", false},
		{"no status", errors.New("message of 404 hunter2"), "not delivered", false},
		{"sentence", fmt.Errorf("x: %w", errors.New("token hunter2 is invalid")), "not delivered (*errors.errorString)", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := judge(tc.err)
			if _, permanent := errors.AsType[*PermanentError](err); permanent != tc.permanent || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v", err)
			}
		})
	}
	if judge(nil) != nil {
		t.Error("nil is judged")
	}
}
