//go:build unix

package probe_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/probe"
)

// serverRole makes the test binary be the server of the benchmarks: in a process of
// its own, so that what it costs is not counted.
const serverRole = "EDGEWARD_BENCHMARK_SERVER"

// BenchmarkServer is the far side of the others, in a process of its own. It says who
// it is and where, and serves until its input ends.
func BenchmarkServer(b *testing.B) {
	if os.Getenv(serverRole) == "" {
		b.Skip("it is run by the other benchmarks")
	}
	ca := newAuthority(b)
	addr := serve(b, overTLS(ca.issue(b, nil), answer(healthy, nil)))
	fmt.Printf("at %s\n%send\n", addr, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// startServer runs one and returns the probe for it.
func startServer(b *testing.B) probe.HTTPS {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkServer$", "-test.benchtime=1x")
	cmd.Env = append(os.Environ(), serverRole+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	var address string
	var certificate bytes.Buffer
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "end"; {
		if at, ok := strings.CutPrefix(lines.Text(), "at "); ok {
			address = at
			continue
		}
		fmt.Fprintln(&certificate, lines.Text())
	}
	ca := &authority{pool: x509.NewCertPool()}
	addr, err := netip.ParseAddrPort(address)
	if err != nil || !ca.pool.AppendCertsFromPEM(certificate.Bytes()) {
		b.Fatalf("the server is at %q: %v", address, err)
	}
	return usual(addr, ca)
}

// BenchmarkHTTPS measures what a probe costs. cpu-ns/op is all CPU time of this
// process, in user and in kernel mode. With 100 sites and a probe each three
// seconds, 600000 is 2 % of a core.
func BenchmarkHTTPS(b *testing.B) {
	h := startServer(b)
	for _, shape := range []probe.Shape{probe.Ordinary, probe.PostQuantum} {
		b.Run(shape.String(), func(b *testing.B) {
			h := h
			h.Shape = shape
			bench(b, func() {
				if r := h.Run(b.Context()); r.Value != evidence.Good {
					b.Fatalf("%+v", r)
				}
			})
		})
	}
}

// BenchmarkHandshake is what of it crypto/tls costs without our savings: with its
// default key share, and with the chain verified each time.
func BenchmarkHandshake(b *testing.B) {
	h := startServer(b)
	config := &tls.Config{ServerName: h.Name, RootCAs: h.Roots}
	bench(b, func() {
		c, err := tls.Dial("tcp", h.Addr.String(), config)
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
	})
}

func bench(b *testing.B, f func()) {
	b.ReportAllocs()
	f()
	before := cpu(b)
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpu is the time this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
