package store_test

import (
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/edgeward/edgeward/relay/store"
)

func hash(b byte) [32]byte { return [32]byte{b, 31: b} }

func TestCodes(t *testing.T) {
	s, _ := fresh(t)
	ctx, end := t.Context(), time.Now().Add(time.Hour).Round(0)
	if err := errors.Join(s.AddCode(ctx, hash(1), "nuc", end), s.AddCode(ctx, hash(2), "nas", end)); err != nil {
		t.Fatal(err)
	}
	if err := s.AddCode(ctx, hash(1), "nas", end); !errors.Is(err, store.ErrExists) {
		t.Errorf("adding a code again: %v", err)
	}
	if err := s.AddCode(ctx, hash(3), "no gateway", end); err == nil {
		t.Error("a code for what is no name was kept")
	}
	tests := []struct {
		name string
		code byte
		now  time.Time
		want string
		err  error
	}{
		{"unknown", 9, noon, "", store.ErrNotFound},
		{"expired now", 1, end, "", store.ErrNotFound},
		{"about to expire", 1, end.Add(-1), "nuc", nil},
		{"used", 1, noon, "", store.ErrNotFound},
		{"the other one", 2, noon, "nas", nil},
	}
	for _, tt := range tests {
		got, err := s.TakeCode(ctx, hash(tt.code), tt.now)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %q, %v; want %q, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// TestExpiredCodesGo when another is made.
func TestExpiredCodesGo(t *testing.T) {
	s, path := fresh(t)
	for i := range 5 {
		if err := s.AddCode(t.Context(), hash(byte(i)), "nuc", time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	rows := 0
	query(t, raw(t, path), "SELECT count(*) FROM pairing_code", &rows)
	if rows != 1 {
		t.Errorf("%d codes are kept", rows)
	}
}

// TestOneTakesACode of all that try at the same moment.
func TestOneTakesACode(t *testing.T) {
	s, _ := fresh(t)
	for range 20 {
		if err := s.AddCode(t.Context(), hash(1), "nuc", noon.AddDate(1, 0, 0)); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		start, won := make(chan struct{}), make(chan string, 8)
		for range cap(won) {
			wg.Go(func() {
				<-start
				gateway, err := s.TakeCode(t.Context(), hash(1), noon)
				if err == nil {
					won <- gateway
				} else if !errors.Is(err, store.ErrNotFound) {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		if len(won) != 1 || <-won != "nuc" {
			t.Fatalf("%d have used the code", len(won))
		}
	}
}

func TestGatewayTokens(t *testing.T) {
	s, path := fresh(t)
	ctx := t.Context()
	if err := errors.Join(
		s.SetGatewayToken(ctx, "nuc", hash(1)),
		s.SetGatewayToken(ctx, "nas", hash(2)),
		s.SetGatewayToken(ctx, "nuc", hash(3)), // rotated
		s.SetGatewayToken(ctx, "of-the-file", hash(1)),
		s.RevokeGatewayToken(ctx, "nas"),
	); err != nil {
		t.Fatal(err)
	}
	if err := s.RevokeGatewayToken(ctx, "nas"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("revoking twice: %v", err)
	}
	if err := s.SetGatewayToken(ctx, "nas", hash(1)); !errors.Is(err, store.ErrExists) {
		t.Errorf("another's token: %v", err)
	}
	s.Close()
	s = open(t, path, store.Options{})
	got, err := s.GatewayTokens(ctx)
	if d := cmp.Diff(map[string][32]byte{"nuc": hash(3), "of-the-file": hash(1)}, got); d != "" || err != nil {
		t.Error(err, "-want +got:\n", d)
	}
}

func TestAPITokens(t *testing.T) {
	s, path := fresh(t)
	ctx := t.Context()
	want := []store.APIToken{
		{Name: "CI, for ever", Hash: hash(1), Scope: "write", Created: noon},
		{Name: "grafana", Hash: hash(2), Scope: "read", Created: noon.Add(1), Expires: noon.Add(time.Hour)},
	}
	for _, token := range []store.APIToken{want[1], want[0]} {
		if err := s.AddAPIToken(ctx, token); err != nil {
			t.Fatal(err)
		}
	}
	sameHash := store.APIToken{Name: "other", Hash: hash(1), Scope: "read", Created: noon}
	for _, token := range []store.APIToken{want[0], sameHash} {
		if err := s.AddAPIToken(ctx, token); !errors.Is(err, store.ErrExists) {
			t.Errorf("%s: %v, want ErrExists", token.Name, err)
		}
	}
	for _, token := range []store.APIToken{
		{Name: "x", Hash: hash(9), Scope: "admin", Created: noon},
		{Name: "x", Hash: hash(9), Scope: "read"},
		{Name: "x", Hash: hash(9), Scope: "read", Created: noon, Expires: noon},
		{Name: strings.Repeat("x", 256), Hash: hash(9), Scope: "read", Created: noon},
	} {
		if err := s.AddAPIToken(ctx, token); err == nil || errors.Is(err, store.ErrExists) {
			t.Errorf("%+v: %v", token, err)
		}
	}
	s.Close()
	s = open(t, path, store.Options{})
	got, err := s.APITokens(ctx)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(err, "-want +got:\n", d)
	}
	if err := s.DeleteAPIToken(ctx, "grafana"); err != nil {
		t.Error(err)
	}
	if err := s.DeleteAPIToken(ctx, "grafana"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleting twice: %v", err)
	}
}

func TestLANs(t *testing.T) {
	s, _ := fresh(t)
	ctx := t.Context()
	a, b := netip.MustParseAddr("192.168.1.10"), netip.MustParseAddr("fe80::1%eth0")
	if err := errors.Join(
		s.SetLAN(ctx, "nuc", b), s.SetLAN(ctx, "nuc", a), s.SetLAN(ctx, "nas", b),
		s.SetLAN(ctx, "gone", a), s.SetLAN(ctx, "gone", netip.Addr{}), s.SetLAN(ctx, "gone", netip.Addr{}),
	); err != nil {
		t.Fatal(err)
	}
	got, err := s.LANs(ctx)
	if d := cmp.Diff(map[string]netip.Addr{"nuc": a, "nas": b}, got, cmpopts.EquateComparable(netip.Addr{})); d != "" || err != nil {
		t.Error(err, "-want +got:\n", d)
	}
}

// TestLANUnchangedWritesNothing: an agent reports it every few seconds.
func TestLANUnchangedWritesNothing(t *testing.T) {
	s, path := fresh(t)
	set := func() {
		if err := s.SetLAN(t.Context(), "nuc", netip.MustParseAddr("192.168.1.10")); err != nil {
			t.Fatal(err)
		}
	}
	set()
	before := read(t, path+"-wal")
	set()
	if after := read(t, path+"-wal"); len(after) != len(before) {
		t.Errorf("the log has grown by %d bytes", len(after)-len(before))
	}
}
