package hello_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/hello"
)

func TestInfo(t *testing.T) {
	for _, tc := range []struct {
		name string
		body []byte
		want hello.Info
	}{
		{"no extensions block", fixedPart(), hello.Info{}},
		{"empty extensions block", body(), hello.Info{}},
		{"name", body(sni("example.com")), hello.Info{ServerName: "example.com"}},
		{"upper case and dot", body(sni("WWW.Example.COM.")), hello.Info{ServerName: "www.example.com"}},
		{"only one dot goes", body(sni("a..")), hello.Info{ServerName: "a."}},
		{"underscore", body(sni("_x._tcp.a")), hello.Info{ServerName: "_x._tcp.a"}},
		{"IPv4 literal", body(sni("192.0.2.1")), hello.Info{ServerName: "192.0.2.1"}},
		{"IPv6 literal", body(sni("[2001:DB8::1]")), hello.Info{ServerName: "[2001:db8::1]"}},
		{"longest name", body(sni(strings.Repeat("a", 255))), hello.Info{ServerName: strings.Repeat("a", 255)}},
		{"other name type", body(extension(0, vec(2, []byte{7}, vec(2, []byte{0, 1}), hostName("a")))), hello.Info{ServerName: "a"}},
		{"only other name type", body(extension(0, vec(2, []byte{7}, vec(2)))), hello.Info{}},
		{"h2 and http/1.1", body(alpn("h2", "http/1.1")), hello.Info{Protocols: []string{"h2", "http/1.1"}}},
		{"http/1.1", body(alpn("http/1.1")), hello.Info{Protocols: []string{"http/1.1"}}},
		{"h2", body(alpn("h2")), hello.Info{Protocols: []string{"h2"}}},
		{"other protocols", body(alpn("imap", "\x00", "acme-tls/1")), hello.Info{Protocols: []string{"imap", "\x00", "acme-tls/1"}}},
		{"ECH", body(extension(0xfe0d, []byte{1, 2})), hello.Info{ECH: true}},
		{"early data", body(sni("a"), extension(42, nil)), hello.Info{ServerName: "a", EarlyData: true}},
		{"unknown extensions", body(extension(0x0a0a, nil), sni("a"), extension(21, make([]byte, 300))), hello.Info{ServerName: "a"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wire := record(message(tc.body))
			tc.want.Bytes, tc.want.Records, tc.want.Segments = len(wire), 1, 1
			var p hello.Parser
			info, done, err := p.Parse(append(wire, "more"...))
			if diff := cmp.Diff(tc.want, info); diff != "" || !done || err != nil {
				t.Errorf("done %v, error %v, info (-want +got):\n%s", done, err, diff)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	long := body(extension(21, make([]byte, 40_000)))
	whole := message(body(sni("example.com")))
	for _, tc := range []struct {
		name string
		wire []byte
		want hello.Reason
	}{
		{"HTTP", []byte("G"), hello.NotTLS},
		{"SSH", []byte("SSH-2.0-x"), hello.NotTLS},
		{"alert", []byte{21, 3, 1, 0, 2, 1, 0}, hello.NotTLS},
		{"SSLv2", []byte{0x80, 0x2e, 1}, hello.NotTLS},
		{"version 2.0", []byte{22, 2}, hello.NotTLS},
		{"empty record", []byte{22, 3, 1, 0, 0}, hello.Malformed},
		{"long record", []byte{22, 3, 1, 0x40, 1}, hello.Malformed},
		{"ServerHello", []byte{22, 3, 1, 0, 80, 2}, hello.NotHello},
		{"HelloRequest in its own record", []byte{22, 3, 1, 0, 1, 0}, hello.NotHello},
		{"announces too much", []byte{22, 3, 1, 0x40, 0, 1, 1, 0, 0}, hello.TooLarge},
		{"announces too much for the records it needs", []byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xef}, hello.TooLarge},
		{"small records add up", records(message(long), 2)[:64<<10+1], hello.TooLarge},
		{"second record is an alert", append(record(whole[:9]), 21), hello.Malformed},
		{"second record is version 2", append(record(whole[:9]), 22, 2), hello.Malformed},
		{"second record is empty", append(record(whole[:9]), 22, 3, 3, 0, 0), hello.Malformed},
		{"empty message", record(message(nil)), hello.Malformed},
		{"short random", record(message(make([]byte, 33))), hello.Malformed},
		{"session id of 33 bytes", record(message(slices.Concat(make([]byte, 34), vec(1, make([]byte, 33)), vec(2, []byte{0, 1}), vec(1, []byte{0})))), hello.Malformed},
		{"odd cipher suites", record(message(slices.Concat(make([]byte, 34), vec(1), vec(2, []byte{1}), vec(1, []byte{0})))), hello.Malformed},
		{"no cipher suites", record(message(slices.Concat(make([]byte, 34), vec(1), vec(2), vec(1, []byte{0})))), hello.Malformed},
		{"no compression", record(message(slices.Concat(make([]byte, 34), vec(1), vec(2, []byte{0, 1}), vec(1)))), hello.Malformed},
		{"bytes behind extensions", record(message(append(body(), 0))), hello.Malformed},
		{"extensions cut short", record(message(append(fixedPart(), 0, 9, 0))), hello.Malformed},
		{"extension too long", record(message(body([]byte{0, 9, 0, 3, 0}))), hello.Malformed},
		{"extension without length", record(message(body([]byte{0, 9, 0}))), hello.Malformed},
		{"empty server_name", record(message(body(extension(0, nil)))), hello.Malformed},
		{"empty name list", record(message(body(extension(0, vec(2))))), hello.Malformed},
		{"bytes behind name list", record(message(body(extension(0, append(vec(2, hostName("a")), 0))))), hello.Malformed},
		{"name type without name", record(message(body(extension(0, vec(2, []byte{0}))))), hello.Malformed},
		{"name too long for list", record(message(body(extension(0, vec(2, []byte{0, 0, 9, 'a'}))))), hello.Malformed},
		{"two names", record(message(body(extension(0, vec(2, hostName("a"), hostName("b")))))), hello.Malformed},
		{"server_name twice", record(message(body(sni("a"), sni("a")))), hello.Malformed},
		{"empty name", record(message(body(sni("")))), hello.Malformed},
		{"only a dot", record(message(body(sni(".")))), hello.Malformed},
		{"name of 256 bytes", record(message(body(sni(strings.Repeat("a", 256))))), hello.Malformed},
		{"NUL in name", record(message(body(sni("a\x00b")))), hello.Malformed},
		{"space in name", record(message(body(sni("a b")))), hello.Malformed},
		{"DEL in name", record(message(body(sni("a\x7f")))), hello.Malformed},
		{"UTF-8 in name", record(message(body(sni("bücher.example")))), hello.Malformed},
		{"ALPN twice", record(message(body(alpn("h2"), alpn("h2")))), hello.Malformed},
		{"empty ALPN", record(message(body(extension(16, nil)))), hello.Malformed},
		{"empty ALPN list", record(message(body(extension(16, vec(2))))), hello.Malformed},
		{"empty protocol", record(message(body(alpn("h2", "")))), hello.Malformed},
		{"protocol too long", record(message(body(extension(16, vec(2, []byte{5, 'h', '2'}))))), hello.Malformed},
		{"bytes behind ALPN list", record(message(body(extension(16, append(vec(2, []byte{1, 'a'}), 0))))), hello.Malformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p hello.Parser
			if len(tc.wire) > 1 {
				if _, done, err := p.Parse(tc.wire[:len(tc.wire)-1]); done {
					t.Fatalf("done without the last byte, error %v", err)
				}
			}
			for range 2 { // the verdict stays
				_, done, err := p.Parse(tc.wire)
				got, ok := errors.AsType[*hello.Error](err)
				if done || !ok || got.Reason != tc.want {
					t.Errorf("done %v, error %v, want %s", done, err, tc.want)
				}
			}
		})
	}
}

func TestDecidesAtTheFirstByteThatTells(t *testing.T) {
	for _, tc := range []struct {
		name string
		wire []byte // the last byte tells
	}{
		{"content type", []byte{0x47}},
		{"version", []byte{22, 4}},
		{"record length", []byte{22, 3, 1, 0xff, 0xff}},
		{"message type", []byte{22, 3, 1, 0, 1, 2}},
		{"message length", []byte{22, 3, 1, 0, 4, 1, 0xff, 0, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p hello.Parser
			last := len(tc.wire) - 1
			if _, _, err := p.Parse(tc.wire[:last]); err != nil {
				t.Errorf("too early: %v", err)
			}
			if _, _, err := p.Parse(tc.wire); err == nil {
				t.Error("not decided")
			}
		})
	}
}

func TestLimitCountsTheHelloOnly(t *testing.T) {
	for _, size := range []int{1 << 14, 100, 1} {
		wire := records(message(body(sni("example.com"))), size)
		more := append(slices.Clone(wire), make([]byte, 1000)...)
		var p hello.Parser
		p.Reset(len(wire))
		if _, done, err := p.Parse(more); !done || err != nil {
			t.Errorf("records of %d: hello as long as the limit: done %v, error %v", size, done, err)
		}
		p.Reset(len(wire) - 1)
		_, _, err := p.Parse(more)
		if got, ok := errors.AsType[*hello.Error](err); !ok || got.Reason != hello.TooLarge {
			t.Errorf("records of %d: hello longer than the limit: %v", size, err)
		}
	}
}

func TestReset(t *testing.T) {
	var p hello.Parser
	first := records(message(body(sni("first.example"), alpn("h2", "x"))), 7)
	before, _, err := p.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	p.Reset(0)
	if _, _, err := p.Parse([]byte("x")); err == nil {
		t.Error("error expected")
	}
	p.Reset(0)
	second, done, err := p.Parse(records(message(body(sni("other.example"), alpn("h3", "y"))), 7))
	if !done || err != nil || second.ServerName != "other.example" || second.Segments != 1 {
		t.Errorf("after Reset: %+v, done %v, error %v", second, done, err)
	}
	if before.ServerName != "first.example" || !slices.Equal(before.Protocols, []string{"h2", "x"}) {
		t.Errorf("an earlier Info changed: %+v", before)
	}
}

func TestErrorText(t *testing.T) {
	err := &hello.Error{Reason: hello.NotTLS, Detail: "why"}
	if got := err.Error(); got != "not_tls: why" {
		t.Error(got)
	}
}
