package watchdog_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog"
	"github.com/edgeward/edgeward/watchdog/probe"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

// The far side of the benchmarks runs in a process of its own, so that what the
// watchdog costs can be told from what its servers do.
const farSide = "EDGE_WATCHDOG_FAR_SIDE"

func TestMain(m *testing.M) {
	if sites := os.Getenv(farSide); sites != "" {
		n, _ := strconv.Atoi(sites)
		serveFarSide(n)
		return
	}
	os.Exit(m.Run())
}

// far says where the far side is.
type far struct {
	API       string
	Edge      netip.AddrPort
	Origin    netip.AddrPort
	Resolvers []string
	CA        []byte
}

const healthy = "edge-ok-v1\n"

// serveFarSide serves n sites until its input ends: the provider, its edge, two
// resolvers and an origin that answers for every name.
func serveFarSide(n int) {
	loopback := netip.MustParseAddr("127.0.0.1")
	zone := fakecloudflare.Zone{Name: zoneName}
	for i := range n {
		zone.Records = append(zone.Records,
			aRecord(fmt.Sprintf("site%d.example.com", i), relay4),
			fakecloudflare.Record{Name: fmt.Sprintf("canary%d.example.com", i), Type: "A", Content: home4.String(), Proxied: true})
	}
	cloud, err := fakecloudflare.Start(fakecloudflare.Config{Token: token, Zones: []fakecloudflare.Zone{zone}, EdgeA: loopback})
	if err != nil {
		panic(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return cloud.CA().Issue(hello.ServerName) },
	})
	if err != nil {
		panic(err)
	}
	origin := netip.MustParseAddrPort(l.Addr().String())
	cloud.SetEdge(fakecloudflare.Edge{Dial: map[netip.Addr]netip.AddrPort{home4: origin}})
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		_, _ = io.WriteString(w, healthy)
	}))
	_ = json.NewEncoder(os.Stdout).Encode(far{
		API: cloud.URL(), Edge: cloud.EdgeAddr(), Origin: origin, CA: cloud.CA().PEM(),
		Resolvers: []string{cloud.Resolver(0).URL(), cloud.Resolver(1).URL()},
	})
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func startFarSide(b *testing.B, n int) far {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), farSide+"="+strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	var f far
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &f)
	}
	if err != nil {
		b.Fatal(err)
	}
	return f
}

func (f far) config(b *testing.B, n int) *watchdog.Config {
	b.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(f.CA)
	set := &resolve.Set{}
	for _, url := range f.Resolvers {
		host := strings.TrimSuffix(strings.TrimPrefix(url, "https://"), "/dns-query")
		set.Resolvers = append(set.Resolvers, &resolve.Resolver{URL: url, Addr: netip.MustParseAddrPort(host), Roots: roots, AllowAnyAddress: true})
	}
	witness := &probe.Witness{Roots: roots}
	for i := range 3 {
		witness.Targets = append(witness.Targets, probe.Target{Name: fmt.Sprintf("witness%d.example.com", i), Addr: f.Origin})
	}
	cfg := &watchdog.Config{
		Dir: b.TempDir(), Apply: true, Resolvers: set, Witness4: witness, Roots: roots, Log: quiet,
		Zones:    []watchdog.Zone{{Name: zoneName, Token: secret.New(token)}},
		Provider: watchdog.Provider{BaseURL: f.API},
	}
	for i := range n {
		cfg.Sites = append(cfg.Sites, watchdog.Site{
			Names:  []string{fmt.Sprintf("site%d.example.com", i)},
			Health: watchdog.Health{Name: fmt.Sprintf("health%d.example.com", i), Path: "/health", Body: []byte(healthy)},
			Local:  netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), f.Origin.Port()),
			Paths: []watchdog.Path{
				{Name: "relay", A: relay4, Probe: f.Origin},
				{Name: "cloudflare", A: home4, Proxied: true, Canary: fmt.Sprintf("canary%d.example.com", i), Probe: f.Edge},
			},
		})
	}
	return cfg
}

// BenchmarkSites: what a hundred sites cost: the share of one core, and the memory of
// the process. "one health name" is how they usually are, behind one relay: equal
// probes are run once. With "a health name each" there are 35 handshakes a second.
func BenchmarkSites(b *testing.B) {
	const sites = 100
	f := startFarSide(b, sites)
	b.Run("one health name", func(b *testing.B) {
		cfg := f.config(b, sites)
		for i := range cfg.Sites {
			cfg.Sites[i].Health.Name = "health.example.com"
			cfg.Sites[i].Paths[1].Canary = "canary0.example.com"
		}
		benchmarkSites(b, cfg)
	})
	b.Run("a health name each", func(b *testing.B) { benchmarkSites(b, f.config(b, sites)) })
}

func benchmarkSites(b *testing.B, cfg *watchdog.Config) {
	const length = 45 * time.Second
	w := &world{t: b}
	for b.Loop() {
		dog := w.start(cfg)
		<-time.After(10 * time.Second) // all is known now
		before := cpu(b)
		<-time.After(length)
		b.ReportMetric(100*(cpu(b)-before).Seconds()/length.Seconds(), "%core")
		b.ReportMetric(resident(b), "MB")
		st, err := dog.Status()
		if err != nil {
			b.Fatal(err)
		}
		steady, late := 0, 0.
		for _, s := range st.Sites {
			if s.Phase == "steady" && s.On == "relay" {
				steady++
			}
			late = max(late, time.Since(s.Paths[0].V4.At).Seconds())
		}
		b.ReportMetric(float64(steady), "steady")
		b.ReportMetric(late, "s-since-probe")
		_ = dog.Close()
	}
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the memory of this process, in MB.
func resident(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	for line := range bytes.SplitSeq(status, []byte("\n")) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
			kb, _ := strconv.Atoi(string(bytes.Fields(rest)[0]))
			return float64(kb) / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}
