package hello_test

import (
	"crypto/tls"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/hello"
)

// samples are hellos of different shapes.
func samples(tb testing.TB) map[string][]byte {
	return map[string][]byte{
		"small":  record(message(body(sni("a.example"), alpn("h2", "spdy")))),
		"tls12":  capture(tb, &tls.Config{ServerName: "a.example", MaxVersion: tls.VersionTLS12}),
		"pq":     capture(tb, &tls.Config{ServerName: "a.example", NextProtos: []string{"h2", "http/1.1"}}),
		"broken": record(message(body(sni("a b")))),
	}
}

func TestSegmentsAtEveryOffset(t *testing.T) {
	for name, wire := range samples(t) {
		t.Run(name, func(t *testing.T) {
			var p hello.Parser
			want, wantDone, wantErr := p.Parse(wire)
			for cut := 1; cut < len(wire); cut++ {
				p.Reset(0)
				got, done, err := parse(&p, wire, cut)
				want.Segments = got.Segments
				if diff := cmp.Diff(want, got); diff != "" || done != wantDone || err != wantErr {
					t.Fatalf("cut at %d: done %v, error %v:\n%s", cut, done, err, diff)
				}
				if done && got.Segments != 2 {
					t.Errorf("cut at %d: %d segments", cut, got.Segments)
				}
			}
		})
	}
}

func TestByteByByte(t *testing.T) {
	for name, wire := range samples(t) {
		t.Run(name, func(t *testing.T) {
			var p hello.Parser
			want, _, wantErr := p.Parse(wire)
			p.Reset(0)
			for n := range len(wire) {
				if _, done, err := p.Parse(wire[:n]); done || err != nil {
					t.Fatalf("after %d of %d bytes: done %v, error %v", n, len(wire), done, err)
				}
			}
			got, _, err := p.Parse(wire)
			if wantErr == nil {
				want.Segments = len(wire)
			}
			if diff := cmp.Diff(want, got); diff != "" || err != wantErr {
				t.Errorf("error %v:\n%s", err, diff)
			}
		})
	}
}

func TestRecordsAtEveryOffset(t *testing.T) {
	for name, wire := range samples(t) {
		t.Run(name, func(t *testing.T) {
			var p hello.Parser
			want, _, wantErr := p.Parse(wire)
			whole := payload(wire)
			for cut := 1; cut < len(whole); cut++ {
				two := append(record(whole[:cut]), record(whole[cut:])...)
				p.Reset(0)
				got, _, err := parse(&p, two, cut)
				if wantErr == nil {
					want.Bytes, want.Records, want.Segments = len(two), 2, 2
				}
				if diff := cmp.Diff(want, got); diff != "" || err != wantErr {
					t.Fatalf("cut at %d: error %v:\n%s", cut, err, diff)
				}
			}
		})
	}
}

func TestRecordsOfEverySize(t *testing.T) {
	for name, wire := range samples(t) {
		t.Run(name, func(t *testing.T) {
			var p hello.Parser
			want, _, wantErr := p.Parse(wire)
			for size := 1; size < 40; size++ {
				many := records(payload(wire), size)
				p.Reset(0)
				got, _, err := p.Parse(many)
				if wantErr == nil {
					want.Bytes, want.Records = len(many), (len(payload(wire))+size-1)/size
				}
				if diff := cmp.Diff(want, got); diff != "" || err != wantErr {
					t.Fatalf("records of %d: error %v:\n%s", size, err, diff)
				}
			}
		})
	}
}
