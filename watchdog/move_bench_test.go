package watchdog_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/decide"
)

// moveFaults are ways for a relay to fail. All are seen by real probes over real
// sockets.
var moveFaults = []string{"refused", "silent", "wrong certificate", "wrong body", "503", "reset", "half of packets lost"}

// BenchmarkTimeToMove: from the moment at which a relay fails to the moment at which
// the provider has the change, for fifty relays that fail at random moments. Half of
// the packets get lost only in a network namespace of its own, as root:
//
//	unshare -n sh -c 'ip link set lo up && go test -run ^$ -bench TimeToMove -benchtime 1x ./watchdog'
func BenchmarkTimeToMove(b *testing.B) {
	for _, preset := range []string{"fast", "careful"} {
		for _, fault := range moveFaults {
			b.Run(preset+"/"+fault, func(b *testing.B) {
				if fault == "half of packets lost" {
					makeLossy(b)
				}
				for b.Loop() {
					took := moveFifty(b, preset, fault)
					slices.Sort(took)
					b.ReportMetric(took[0].Seconds(), "s-least")
					b.ReportMetric(took[len(took)/2].Seconds(), "s-p50")
					b.ReportMetric(took[len(took)*95/100].Seconds(), "s-p95")
					b.ReportMetric(took[len(took)-1].Seconds(), "s-most")
				}
			})
		}
	}
}

// makeLossy prepares to lose half of the packets of some ports, in both directions.
func makeLossy(b *testing.B) {
	b.Helper()
	if links, err := net.Interfaces(); err != nil || len(links) != 1 {
		b.Skip("losing packets would disturb others: run it in a network namespace of its own")
	}
	nft(b, "add table inet lossy",
		"flush table inet lossy",
		"add set inet lossy ports { type inet_service; }",
		"add chain inet lossy out { type filter hook output priority 0; }",
		"add rule inet lossy out tcp dport @ports numgen random mod 2 < 1 drop",
		"add rule inet lossy out tcp sport @ports numgen random mod 2 < 1 drop")
}

func nft(b *testing.B, lines ...string) {
	b.Helper()
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Skipf("nft: %v: %s", err, out)
	}
}

// standIn is a relay that can fail.
type standIn struct {
	net.Listener
	fault atomic.Pointer[string]
	good  *tls.Config
	bad   *tls.Config
}

func (s *standIn) is(fault string) bool {
	f := s.fault.Load()
	return f != nil && *f == fault
}

// Accept does what a relay with its fault does with a visitor.
func (s *standIn) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		switch {
		case err != nil:
			return nil, err
		case s.is("silent"):
			continue // and the connection stays open
		case s.is("reset"):
			_ = conn.(*net.TCPConn).SetLinger(0)
			_ = conn.Close()
			continue
		case s.is("wrong certificate"):
			return tls.Server(conn, s.bad), nil
		}
		return tls.Server(conn, s.good), nil
	}
}

// ServeHTTP answers a health question.
func (s *standIn) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	body := healthy
	switch {
	case s.is("wrong body"):
		body = "welcome to nginx\n"
	case s.is("503"):
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, body)
}

// fail makes it fail from now on.
func (s *standIn) fail(b *testing.B, fault string) {
	s.fault.Store(&fault)
	switch fault {
	case "refused":
		_ = s.Close()
	case "half of packets lost":
		nft(b, fmt.Sprintf("add element inet lossy ports { %d }", s.Addr().(*net.TCPAddr).Port))
	}
}

// moveFifty lets fifty relays fail, and returns how long each move took.
func moveFifty(b *testing.B, preset, fault string) []time.Duration {
	b.Helper()
	const sites = 50
	f := startFarSide(b, sites)
	cfg := f.config(b, sites)
	others, err := fakecloudflare.NewCA()
	if err != nil {
		b.Fatal(err)
	}
	ca, err := fakecloudflare.NewCA()
	if err != nil {
		b.Fatal(err)
	}
	cfg.Roots.AppendCertsFromPEM(ca.PEM())
	relays := make([]*standIn, sites)
	for i := range relays {
		relays[i] = newStandIn(b, ca, others)
		cfg.Sites[i].Paths[0].Probe = netip.MustParseAddrPort(relays[i].Addr().String())
		if preset == "careful" {
			cfg.Sites[i].Policy, cfg.Sites[i].Timeout = decide.Careful(), 5*time.Second
		}
	}
	w := &world{t: b}
	dog := w.start(cfg)
	defer dog.Close()
	<-time.After(10 * time.Second)
	failed := make([]time.Time, sites)
	var wg sync.WaitGroup
	for i, r := range relays {
		wg.Go(func() {
			<-time.After(rand.N(20 * time.Second))
			failed[i] = time.Now()
			r.fail(b, fault)
		})
	}
	wg.Wait()
	return moves(b, dog, failed)
}

// moves waits until all sites are on the other path, and returns how long after its
// failure each was. The last move is when the read-back had confirmed it.
func moves(b *testing.B, dog *watchdog.Watchdog, failed []time.Time) []time.Duration {
	b.Helper()
	deadline := time.Now().Add(4 * time.Minute)
	for {
		st, err := dog.Status()
		if err != nil {
			b.Fatal(err)
		}
		var took []time.Duration
		for i, s := range st.Sites {
			if s.On == "cloudflare" {
				took = append(took, s.LastMove.Sub(failed[i]))
			}
		}
		if len(took) == len(failed) {
			return took
		}
		if time.Now().After(deadline) {
			b.Fatalf("%d of %d sites moved", len(took), len(failed))
		}
		<-time.After(time.Second)
	}
}

func newStandIn(b *testing.B, ca, others *fakecloudflare.CA) *standIn {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := &standIn{Listener: l, good: issuing(ca), bad: issuing(others)}
	server := &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	go server.Serve(s)
	b.Cleanup(func() { _ = server.Close() })
	return s
}

func issuing(ca *fakecloudflare.CA) *tls.Config {
	return &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return ca.Issue(hello.ServerName) }}
}
