package hello_test

import (
	"crypto/tls"
	"testing"

	"github.com/edgeward/edgeward/relay/hello"
)

// classic is a hello of 517 bytes, the size browsers padded to before
// post-quantum key shares.
func classic() []byte {
	fill := 512 - len(message(body(sni("www.example.com"), alpn("h2", "http/1.1"), extension(21, nil))))
	return record(message(body(sni("www.example.com"), alpn("h2", "http/1.1"), extension(21, make([]byte, fill)))))
}

// postQuantum is a hello of about 1.8 kB with an X25519MLKEM768 key share.
func postQuantum(tb testing.TB) []byte {
	wire := capture(tb, &tls.Config{ServerName: "www.example.com", NextProtos: []string{"h2", "http/1.1"}})
	whole := payload(wire)
	fill := max(0, 1800-len(whole))
	return record(message(append(whole[4:4:4], grow(whole[4:], fill)...)))
}

// grow adds a padding extension to a body.
func grow(b []byte, fill int) []byte {
	at := 2 + 32 + 1 + int(b[34])
	at += 2 + int(b[at])<<8 + int(b[at+1])
	at += 1 + int(b[at])
	old := b[at+2:]
	return append(b[:at:at], vec(2, old, extension(21, make([]byte, fill)))...)
}

func TestAllocations(t *testing.T) {
	for _, tc := range []struct {
		name string
		wire []byte
		want float64
	}{
		{"usual", classic(), 1},
		{"post-quantum", postQuantum(t), 1},
		{"several records", records(payload(postQuantum(t)), 500), 1}, // the scratch is there already
		{"no name", record(message(body(alpn("h2", "http/1.1")))), 0},
		{"unusual protocols", record(message(body(sni("a"), alpn("x", "yy", "zzz")))), 3},
		{"not TLS", []byte("GET /"), 0},
		{"malformed", record(message(body(sni("a b")))), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var p hello.Parser
			got := testing.AllocsPerRun(100, func() {
				p.Reset(0)
				p.Parse(tc.wire)
			})
			if got > tc.want {
				t.Errorf("%v allocations, want %v", got, tc.want)
			}
		})
	}
}

// TestDripCostsNothing sends byte by byte what announces the largest hello.
func TestDripCostsNothing(t *testing.T) {
	wire := record(append([]byte{1, 0, 0xff, 0xe0}, make([]byte, 1<<14-4)...))
	got := testing.AllocsPerRun(10, func() {
		var p hello.Parser
		for n := range wire {
			if _, done, err := p.Parse(wire[:n+1]); done || err != nil {
				t.Fatalf("after %d bytes: done %v, error %v", n+1, done, err)
			}
		}
	})
	if got > 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkParse(b *testing.B) {
	pq := postQuantum(b)
	for _, bc := range []struct {
		name string
		wire []byte
		step int
	}{
		{"classic517", classic(), 1 << 20},
		{"postquantum1800", pq, 1 << 20},
		{"postquantum1800/two-segments", pq, 1448},
		{"postquantum1800/four-records", records(payload(pq), 500), 1 << 20},
		{"postquantum1800/byte-by-byte", pq, 1},
		{"not-tls", []byte("GET / HTTP/1.1\r\n"), 1 << 20},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bc.wire)))
			var p hello.Parser
			for b.Loop() {
				p.Reset(0)
				for n := min(bc.step, len(bc.wire)); ; n = min(n+bc.step, len(bc.wire)) {
					if _, done, err := p.Parse(bc.wire[:n]); done || err != nil {
						break
					}
				}
			}
		})
	}
}
