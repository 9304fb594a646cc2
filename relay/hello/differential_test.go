package hello_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/hello"
)

// TestAgreesWithStandardLibrary compares with what a crypto/tls server reads.
func TestAgreesWithStandardLibrary(t *testing.T) {
	count := 4000
	if testing.Short() {
		count = 400
	}
	r := mathrand.New(mathrand.NewPCG(1, 2))
	kinds := configs(t)
	for i := range count {
		config := kinds[i%len(kinds)].Clone()
		if config.ClientSessionCache == nil {
			config.ServerName = randomName(r)
		}
		wire := capture(t, config)
		if i%3 == 0 {
			wire = records(payload(wire), 1+r.IntN(len(wire)))
		}
		compare(t, config, wire)
	}
}

func compare(t *testing.T, config *tls.Config, wire []byte) {
	t.Helper()
	seen := serverSees(wire)
	if seen == nil {
		t.Fatalf("crypto/tls refuses its own hello for %q", config.ServerName)
	}
	want := hello.Info{
		ServerName: strings.ToLower(seen.ServerName),
		Protocols:  seen.SupportedProtos,
		ECH:        slices.Contains(seen.Extensions, 0xfe0d),
		EarlyData:  slices.Contains(seen.Extensions, 42),
		Bytes:      len(wire),
	}
	var p hello.Parser
	got, done, err := p.Parse(wire)
	if !done || err != nil {
		t.Fatalf("%q: done %v, error %v", config.ServerName, done, err)
	}
	got.Records, got.Segments = 0, 0
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%q (-crypto/tls +hello):\n%s", config.ServerName, diff)
	}
}

func randomName(r *mathrand.Rand) string {
	const letters = "abcXYZ019-_"
	labels := make([]string, 1+r.IntN(5))
	for i := range labels {
		label := make([]byte, 1+r.IntN(20))
		for j := range label {
			label[j] = letters[r.IntN(len(letters))]
		}
		labels[i] = string(label)
	}
	switch name := strings.Join(labels, "."); r.IntN(12) {
	case 0:
		return name + "."
	case 1:
		return "192.0.2.7" // crypto/tls sends no name then
	default:
		return name
	}
}

// configs are clients of many kinds.
func configs(t *testing.T) []*tls.Config {
	var all []*tls.Config
	protocols := [][]string{nil, {"h2", "http/1.1"}, {"http/1.1"}, {"h2"}, {"acme-tls/1"}, {"a", "bb", strings.Repeat("c", 255)}}
	curves := [][]tls.CurveID{nil, {tls.X25519}, {tls.CurveP521, tls.CurveP256}, {tls.X25519MLKEM768}}
	for _, versions := range [][2]uint16{{tls.VersionTLS10, tls.VersionTLS12}, {tls.VersionTLS12, tls.VersionTLS13}, {tls.VersionTLS13, tls.VersionTLS13}} {
		for _, protos := range protocols {
			for _, c := range curves {
				if versions[1] == tls.VersionTLS12 && slices.Equal(c, []tls.CurveID{tls.X25519MLKEM768}) {
					continue // not defined before TLS 1.3
				}
				all = append(all, &tls.Config{MinVersion: versions[0], MaxVersion: versions[1], NextProtos: protos, CurvePreferences: c})
			}
		}
	}
	all = append(all, &tls.Config{EncryptedClientHelloConfigList: echConfigList(t)})
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		all = append(all, resuming(t, version))
	}
	return all
}

// echConfigList makes a list with one config, RFC 9849, section 4.
func echConfigList(t *testing.T) []byte {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	contents := slices.Concat(
		[]byte{1, 0, 0x20}, // id, DHKEM(X25519, HKDF-SHA256)
		vec(2, key.PublicKey().Bytes()),
		vec(2, []byte{0, 1, 0, 1}), // HKDF-SHA256, AES-128-GCM
		[]byte{64},
		vec(1, []byte("public.example")),
		vec(2),
	)
	return vec(2, binary.BigEndian.AppendUint16(nil, 0xfe0d), vec(2, contents))
}

// resuming is a client that holds a session ticket.
func resuming(t *testing.T, version uint16) *tls.Config {
	server := &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	client := &tls.Config{
		ServerName:         fmt.Sprintf("resumed-%x.example", version),
		InsecureSkipVerify: true,
		MaxVersion:         version,
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	near, far := loopback(t)
	done := make(chan error, 1)
	go func() {
		_, err := tls.Server(far, server).Write([]byte("x"))
		done <- err
	}()
	if _, err := tls.Client(near, client).Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, ok := client.ClientSessionCache.Get(client.ServerName); !ok {
		t.Fatal("no session ticket")
	}
	return client
}

// loopback returns both ends of a connection: on net.Pipe a TLS 1.3 server that
// sends its tickets early and the client would wait for each other.
func loopback(t *testing.T) (near, far net.Conn) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if near, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	if far, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}

func certificate(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
