package render_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/sidecar/haproxytest"
)

// TestOracle runs what the preset replaces beside it: a config written from the
// description of that template's settings, with the same visitors on both.
func TestOracle(t *testing.T) {
	t.Parallel()
	home := haproxytest.StartGateway(t, "home", "127.0.0.1")
	ours, theirs := haproxytest.Port(t, "127.0.0.1"), haproxytest.Port(t, "127.0.0.1")
	start(t, configure(t, fmt.Sprintf(`{
		"preset": "oracle",
		"gateways": [{"name": "home", "dial": %q}],
		"routes": [{"name": "home", "hosts": ["example.com", "*.example.com"], "gateway": "home"}],
		"listeners": [{"address": "127.0.0.1:%d"}]
	}`, home.Addr, ours)))
	replaced(t, theirs, home.Addr.String())
	both := []string{fmt.Sprintf("127.0.0.1:%d", ours), fmt.Sprintf("127.0.0.1:%d", theirs)}

	var plain sync.WaitGroup
	defer plain.Wait()
	for i, address := range both {
		plain.Go(func() { plainText(t, address, i == 0) })
	}
	t.Run("verdicts", func(t *testing.T) {
		quantum := haproxytest.Hello("a.example.com")
		for _, tc := range []struct {
			name   string
			pieces [][]byte
			want   string
		}{
			{"apex", one(haproxytest.Hello("example.com")), "home"},
			{"sub", one(quantum), "home"},
			{"deep", one(haproxytest.Hello("a.b.c.d.example.com")), "home"},
			{"upper case", one(haproxytest.RawHello("A.EXAMPLE.COM", 0)), "home"},
			{"hyphens", one(haproxytest.RawHello("a--b.c-1.example.com", 0)), "home"},
			{"wrong", one(haproxytest.Hello("example.org")), ""},
			{"looks alike", one(haproxytest.Hello("notexample.com")), ""},
			{"dots are dots", one(haproxytest.RawHello("a.examplexcom", 0)), ""},
			{"suffix", one(haproxytest.Hello("example.com.evil.org")), ""},
			{"no name", one(haproxytest.Hello("")), ""},
			{"underscore", one(haproxytest.RawHello("_a.example.com", 0)), ""},
			{"trailing dot", one(haproxytest.RawHello("a.example.com.", 0)), ""},
			{"leading dot", one(haproxytest.RawHello(".example.com", 0)), ""},
			{"empty label", one(haproxytest.RawHello("a..example.com", 0)), ""},
			{"leading hyphen", one(haproxytest.RawHello("-a.example.com", 0)), ""},
			{"trailing hyphen", one(haproxytest.RawHello("a-.example.com", 0)), ""},
			{"newline", one(haproxytest.RawHello("a.example.com\nb", 0)), ""},
			{"segments", [][]byte{quantum[:600], quantum[600:]}, "home"},
			{"records", one(records(haproxytest.RawHello("a.example.com", 0), 20)), ""},
			{"3.5 kB", one(haproxytest.RawHello("a.example.com", 3500)), "home"},
			{"14.5 kB", one(haproxytest.RawHello("a.example.com", 14500)), "home"},
			{"16 kB", one(haproxytest.RawHello("a.example.com", 16200)), ""},
		} {
			for i, address := range both {
				source := "127.0.0.20" // within the rate: each pause is longer than a visit
				if got := haproxytest.VisitFrom(t, source+fmt.Sprint(i), address, tc.pieces...); got != tc.want {
					t.Errorf("%s at %s: %q, want %q", tc.name, []string{"the preset", "the template"}[i], got, tc.want)
				}
				<-time.After(40 * time.Millisecond)
			}
		}
	})
	t.Run("rate", func(t *testing.T) {
		for _, address := range both {
			if got := crowd(t, "127.0.0.40", address, 45); got != 30 {
				t.Errorf("%s: %d of 45 at once are served, want 30", address, got)
			}
		}
	})
	t.Run("concurrent", func(t *testing.T) {
		var wg sync.WaitGroup
		for _, address := range both {
			wg.Go(func() {
				served := 0
				for range 11 {
					served += crowd(t, "127.0.0.50", address, 10)
					<-time.After(450 * time.Millisecond) // below the rate
				}
				if served != 100 {
					t.Errorf("%s: %d of 110 are served, want 100", address, served)
				}
			})
		}
		wg.Wait()
	})
}

// plainText is closed. The template kept the slot until 5 s were over; the preset
// needs not wait.
func plainText(t *testing.T, address string, atOnce bool) {
	began := time.Now()
	got := haproxytest.VisitFrom(t, "127.0.0.30", address, []byte("GET / HTTP/1.1\r\n\r\n"))
	if took := time.Since(began); got != "" || took > 9*time.Second || atOnce && took > 4*time.Second {
		t.Errorf("plain text at %s: %q after %s", address, got, took)
	}
}

func one(b []byte) [][]byte { return [][]byte{b} }

// replaced runs the config that the preset stands for.
func replaced(t *testing.T, port int, home string) {
	t.Helper()
	text, err := os.ReadFile("testdata/replaced.cfg")
	if err != nil {
		t.Fatal(err)
	}
	socket := haproxytest.Socket(t)
	name, group := haproxytest.Account(t)
	text = bytes.ReplaceAll(text, []byte("USER"), []byte(name))
	text = bytes.ReplaceAll(text, []byte("GROUP"), []byte(group))
	filled := strings.NewReplacer("SOCKET", socket, "PORT", fmt.Sprint(port), "HOME", home).Replace(string(text))
	haproxytest.Start(t, filled, socket)
}
