package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/relay/check"
)

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name, want string
		spec       check.Spec
	}{
		{"tcp", "", check.Spec{}},
		{"https", "", check.Spec{Kind: check.HTTPS, ServerName: "a", Path: "/x", Status: []check.StatusRange{{200, 204}}, Body: "ok"}},
		{"kind", "kind", check.Spec{Kind: 9, ServerName: "a"}},
		{"no name", "server_name", check.Spec{Kind: check.TLS}},
		{"tls settings of tcp", "need a tls or https check", check.Spec{ServerName: "a"}},
		{"http settings of tls", "need an https check", check.Spec{Kind: check.TLS, ServerName: "a", Path: "/"}},
		{"h2", "alpn", check.Spec{Kind: check.HTTPS, ServerName: "a", ALPN: []string{"h2"}}},
		{"roots and none", "insecure and roots", check.Spec{Kind: check.TLS, ServerName: "a", Insecure: true, RootsPEM: []byte("x")}},
		{"roots", "roots", check.Spec{Kind: check.TLS, ServerName: "a", RootsPEM: []byte("x")}},
		{"path", "path", check.Spec{Kind: check.HTTPS, ServerName: "a", Path: "/ HTTP/1.1\r\nX: y"}},
		{"relative path", "path", check.Spec{Kind: check.HTTPS, ServerName: "a", Path: "x"}},
		{"host", "host", check.Spec{Kind: check.HTTPS, ServerName: "a", Host: "b\r\nX: y"}},
		{"status", "status 99-200", check.Spec{Kind: check.HTTPS, ServerName: "a", Status: []check.StatusRange{{99, 200}}}},
		{"body", "body", check.Spec{Kind: check.HTTPS, ServerName: "a", Body: strings.Repeat("x", check.MaxBodyBytes+1)}},
		{"timeout", "timeout", check.Spec{Timeout: -1}},
		{"proxy", "proxy_protocol", check.Spec{ProxyProtocol: 3}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := tc.spec.Validate()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
}

func TestKey(t *testing.T) {
	base := check.Spec{Kind: check.HTTPS, ServerName: "a"}
	same := check.Spec{
		Kind: check.HTTPS, ServerName: "a", Path: "/", Host: "a", Timeout: 1500 * time.Millisecond,
		ALPN: []string{"http/1.1"}, Status: []check.StatusRange{{200, 299}},
	}
	if base.Key() != same.Key() {
		t.Errorf("defaults differ:\n%s\n%s", base.Key(), same.Key())
	}
	seen := map[string]string{base.Key(): "base"}
	for name, change := range map[string]func(*check.Spec){
		"kind": func(s *check.Spec) { s.Kind = check.TLS }, "name": func(s *check.Spec) { s.ServerName = "b" },
		"roots": func(s *check.Spec) { s.RootsPEM = []byte("x") }, "insecure": func(s *check.Spec) { s.Insecure = true },
		"path": func(s *check.Spec) { s.Path = "/x" }, "host": func(s *check.Spec) { s.Host = "b" },
		"status": func(s *check.Spec) { s.Status = []check.StatusRange{{204, 204}} }, "body": func(s *check.Spec) { s.Body = "x" },
		"timeout": func(s *check.Spec) { s.Timeout = time.Second }, "proxy": func(s *check.Spec) { s.ProxyProtocol = 1 },
	} {
		s := base
		change(&s)
		if other := seen[s.Key()]; other != "" {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[s.Key()] = name
	}
}

func TestKindText(t *testing.T) {
	var k check.Kind
	if err := k.UnmarshalText([]byte("https")); err != nil || k != check.HTTPS {
		t.Errorf("%s, %v", k, err)
	}
	if err := k.UnmarshalText([]byte("icmp")); err == nil {
		t.Error("took icmp")
	}
}

func FuzzParseStatus(f *testing.F) {
	for _, s := range []string{"200", "2xx", "200-204", "xx", "9xx", "204-200", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := check.ParseStatus(s)
		if err != nil {
			return
		}
		if r.From < 100 || r.To > 599 || r.From > r.To {
			t.Fatalf("%q is %+v", s, r)
		}
		if again, err := check.ParseStatus(r.String()); err != nil || again != r {
			t.Fatalf("%q becomes %q becomes %+v, %v", s, r, again, err)
		}
	})
}
