package stage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/fallback/ddns"
)

// zoneName is that of the zone all names are in.
const zoneName = "example.test"

// Write is one change of a home's records at the provider.
type Write struct {
	At      time.Time
	Home    string // whose name it is
	By      string // who wrote it
	Epoch   uint64
	Content string
}

// Cloud is the internet of this world: the provider, its name servers, two resolvers,
// and servers that take connections.
type Cloud struct {
	*fakecloudflare.Server
	api       string
	dns       string
	resolvers []string
	witnesses []string

	mu     sync.Mutex
	writes []Write
	last   map[string]Write // by name

	life   context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func startCloud(dir string, at func(host byte) netip.Addr) (c *Cloud, err error) {
	c = &Cloud{last: map[string]Write{}}
	c.life, c.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	c.Server, err = fakecloudflare.Start(fakecloudflare.Config{Zones: []fakecloudflare.Zone{{Name: zoneName}}, Limit: -1})
	if err != nil {
		return nil, fmt.Errorf("starting the fake Cloudflare: %w", err)
	}
	c.SetDNS(fakecloudflare.DNS{TTL: 1})
	c.OnRequest(c.note)
	if err := os.WriteFile(filepath.Join(dir, "roots.pem"), c.CA().PEM(), 0o600); err != nil {
		return c, err
	}
	internet := at(internetHost)
	for _, start := range []func(netip.Addr) error{c.startAPI, c.startDNS, c.startResolvers} {
		if err := start(internet); err != nil {
			return c, err
		}
	}
	for _, host := range []byte{witnessHost, witnessHost + 1} {
		ln, err := c.listen(at(host))
		if err != nil {
			return c, err
		}
		c.witnesses = append(c.witnesses, ln.Addr().String())
		c.accept(ln, func(net.Conn) {})
	}
	return c, nil
}

func (c *Cloud) listen(addr netip.Addr) (net.Listener, error) {
	ln, err := net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
	if err == nil {
		context.AfterFunc(c.life, func() { _ = ln.Close() })
	}
	return ln, err
}

// accept hands out connections until the world ends, and closes them.
func (c *Cloud) accept(ln net.Listener, serve func(net.Conn)) {
	c.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() {
				defer context.AfterFunc(c.life, func() { _ = conn.Close() })()
				defer conn.Close()
				serve(conn)
			})
		}
	})
}

func (c *Cloud) startAPI(addr netip.Addr) error {
	cert, err := c.CA().Issue(addr.String())
	if err != nil {
		return err
	}
	ln, err := c.listen(addr)
	if err != nil {
		return err
	}
	c.api = "https://" + ln.Addr().String() + "/client/v4"
	server := &http.Server{Handler: c.Handler(), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(c.life, func() { _ = server.Close() })
	c.wg.Go(func() { _ = server.Serve(tls.NewListener(ln, &tls.Config{Certificates: []tls.Certificate{*cert}})) })
	return nil
}

// startDNS opens the name servers, over UDP and TCP at one port.
func (c *Cloud) startDNS(addr netip.Addr) error {
	for range 100 {
		ln, err := c.listen(addr)
		if err != nil {
			return err
		}
		conn, err := net.ListenPacket("udp", ln.Addr().String())
		if err != nil {
			_ = ln.Close() // somebody has that one
			continue
		}
		c.dns = ln.Addr().String()
		for _, s := range []*dns.Server{{Listener: ln, Handler: c.Server}, {PacketConn: conn, Handler: c.Server}} {
			context.AfterFunc(c.life, func() { _ = s.Shutdown() })
			c.wg.Go(func() { _ = s.ActivateAndServe() })
		}
		return nil
	}
	return errors.New("there is no port that is free for both UDP and TCP")
}

func (c *Cloud) startResolvers(addr netip.Addr) error {
	for i := range 2 {
		ln, err := c.listen(addr)
		if err != nil {
			return err
		}
		c.resolvers = append(c.resolvers, fmt.Sprint(c.Resolver(i).URL(), " ", ln.Addr(), " any_address"))
		to := c.Resolver(i).Addr().String()
		c.accept(ln, func(conn net.Conn) { c.pass(conn, to) })
	}
	return nil
}

// pass joins two connections.
func (c *Cloud) pass(conn net.Conn, to string) {
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(far, conn)
		_ = far.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(conn, far)
	_ = conn.Close()
	wg.Wait()
}

// note looks what a request has changed. A write that shows nothing new was none.
func (c *Cloud) note(r fakecloudflare.Request, stage fakecloudflare.Stage) {
	if stage != fakecloudflare.After || !r.Call.Writes() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rec := range c.Records(zoneName) {
		if rec.Comment == nil {
			continue
		}
		s, _, ok := ddns.ParseComment(*rec.Comment)
		w := Write{Home: s.Home, By: s.By, Epoch: s.Epoch, Content: rec.Content}
		if before := c.last[rec.Name]; !ok || before == w {
			continue
		}
		c.last[rec.Name] = w
		w.At = time.Now()
		c.writes = append(c.writes, w)
	}
}

// Writes are all changes of records so far.
func (c *Cloud) Writes() []Write {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

// faults finds writers that were not alone: epochs that fall, or that two homes had.
func (c *Cloud) faults() (list []string) {
	type act struct {
		home  string
		epoch uint64
	}
	by, highest := map[act]string{}, map[string]uint64{}
	for _, w := range c.Writes() {
		if w.Epoch < highest[w.Home] {
			list = append(list, fmt.Sprintf("%s wrote records of %s by epoch %d, after somebody had by %d", w.By, w.Home, w.Epoch, highest[w.Home]))
		}
		highest[w.Home] = max(highest[w.Home], w.Epoch)
		a := act{w.Home, w.Epoch}
		if other := by[a]; other != "" && other != w.By {
			list = append(list, fmt.Sprintf("%s and %s both wrote records of %s by epoch %d", other, w.By, w.Home, w.Epoch))
		}
		by[a] = w.By
	}
	return list
}

// Lookup returns where DNS leads visitors of a home.
func (c *Cloud) Lookup(home string) netip.Addr {
	for _, rr := range c.Server.Lookup(home+"."+zoneName+".", dns.TypeA).Answer {
		if a, ok := rr.(*dns.A); ok {
			addr, _ := netip.AddrFromSlice(a.A.To4())
			return addr
		}
	}
	return netip.Addr{}
}

// Close ends it.
func (c *Cloud) Close() {
	c.cancel()
	if c.Server != nil {
		c.Server.Close()
	}
	c.wg.Wait()
}
