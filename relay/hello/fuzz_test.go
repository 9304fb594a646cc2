package hello_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/hello"
)

func FuzzParse(f *testing.F) {
	for _, wire := range samples(f) {
		f.Add(wire, uint64(1), 0)
		f.Add(records(payload(wire), 50), uint64(2), 600)
	}
	f.Add([]byte("GET / HTTP/1.1\r\n"), uint64(3), 10)
	f.Fuzz(func(t *testing.T, wire []byte, seed uint64, limit int) {
		var p hello.Parser
		p.Reset(limit)
		want, wantDone, wantErr := p.Parse(wire)
		checkInfo(t, want, wantDone, wantErr, wire, limit)

		r := rand.New(rand.NewPCG(seed, 0))
		for range 3 {
			p.Reset(limit)
			got, done, err := parse(&p, wire, cuts(r, len(wire))...)
			got.Segments = want.Segments
			if diff := cmp.Diff(want, got); diff != "" || done != wantDone || err != wantErr {
				t.Fatalf("cut: done %v, want %v; error %v, want %v:\n%s", done, wantDone, err, wantErr, diff)
			}
		}
		if wantDone {
			checkAgain(t, want, wire, limit)
		}
	})
}

func cuts(r *rand.Rand, n int) []int {
	var ends []int
	for at := r.IntN(4); at < n; at += 1 + r.IntN(1+r.IntN(1+n)) {
		ends = append(ends, at)
	}
	return ends
}

func checkInfo(t *testing.T, info hello.Info, done bool, err error, wire []byte, limit int) {
	if limit <= 0 {
		limit = hello.DefaultMaxBytes
	}
	switch {
	case done && err != nil:
		t.Fatal("both done and an error")
	case !done && err == nil && len(wire) > limit:
		t.Fatal("undecided over the limit")
	case !done && !cmp.Equal(info, hello.Info{}):
		t.Fatalf("info without being done: %+v", info)
	case done && (info.Bytes > len(wire) || info.Bytes > limit || len(info.ServerName) > 255):
		t.Fatalf("out of bounds: %+v", info)
	}
}

// checkAgain looks at the same hello without what is behind it, without its
// last byte, and in other records.
func checkAgain(t *testing.T, want hello.Info, wire []byte, limit int) {
	var p hello.Parser
	p.Reset(limit)
	if _, done, err := p.Parse(wire[:want.Bytes-1]); done || err != nil {
		t.Fatalf("without the last byte: done %v, error %v", done, err)
	}
	p.Reset(limit)
	if got, _, _ := p.Parse(wire[:want.Bytes]); !cmp.Equal(got, want) {
		t.Fatalf("alone: %+v, want %+v", got, want)
	}
	again := records(payload(wire[:want.Bytes]), 77)
	p.Reset(len(again))
	got, _, _ := p.Parse(again)
	got.Bytes, got.Records = want.Bytes, want.Records
	if !cmp.Equal(got, want) {
		t.Fatalf("in other records: %+v, want %+v", got, want)
	}
}
