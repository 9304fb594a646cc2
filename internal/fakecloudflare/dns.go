package fakecloudflare

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// autoTTL is what DNS says for the TTL "automatic", and for proxied records.
const autoTTL = 300

// DNS is how the zones are published.
type DNS struct {
	// How long a change takes from the API to the name servers.
	Propagation time.Duration
	// Seconds that replace the TTL of all answers. 0: as the records say.
	TTL uint32
	// An answer without regard to the zone, as dns.RcodeServerFailure. 0: none.
	Rcode int
	// Whether the name servers do not answer at all.
	Silent bool
}

// SetDNS changes how the zones are published.
func (s *Server) SetDNS(d DNS) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dns = d
}

// Lookup answers a question as the authoritative servers do.
func (s *Server) Lookup(name string, kind uint16) *dns.Msg {
	return s.Answer(new(dns.Msg).SetQuestion(dns.Fqdn(name), kind))
}

// Answer answers a query as the authoritative servers do.
func (s *Server) Answer(q *dns.Msg) *dns.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := new(dns.Msg).SetReply(q)
	if len(q.Question) != 1 {
		m.Rcode = dns.RcodeFormatError
		return m
	}
	if s.dns.Rcode != 0 {
		m.Rcode = s.dns.Rcode
		return m
	}
	ask := q.Question[0]
	name := strings.ToLower(strings.TrimSuffix(ask.Name, "."))
	z := s.zoneOver(name)
	if z == nil {
		m.Rcode = dns.RcodeRefused
		return m
	}
	m.Authoritative = true
	s.fill(m, z, name, ask)
	return m
}

// zoneOver returns the zone that a name is in.
func (s *Server) zoneOver(name string) *zone {
	var best *zone
	for _, z := range s.zones {
		if (name == z.Name || strings.HasSuffix(name, "."+z.Name)) && (best == nil || len(z.Name) > len(best.Name)) {
			best = z
		}
	}
	return best
}

func (s *Server) fill(m *dns.Msg, z *zone, name string, ask dns.Question) {
	records, exists := z.published(name, time.Now().Add(-s.dns.Propagation))
	proxied := slices.ContainsFunc(records, func(r *stored) bool { return r.Proxied })
	if proxied && (ask.Qtype == dns.TypeA || ask.Qtype == dns.TypeAAAA) {
		m.Answer = append(m.Answer, s.edgeRecord(ask))
	}
	for _, r := range records {
		address := r.Type == "A" || r.Type == "AAAA" || r.Type == "CNAME"
		if proxied && address {
			continue
		}
		if rr := s.rr(ask.Name, r); rr != nil && (rr.Header().Rrtype == ask.Qtype || r.Type == "CNAME") {
			m.Answer = append(m.Answer, rr)
		}
	}
	if ask.Qtype == dns.TypeNS && name == z.Name {
		for _, ns := range z.NameServers {
			m.Answer = append(m.Answer, &dns.NS{Hdr: s.header(ask.Name, dns.TypeNS, 86400), Ns: dns.Fqdn(ns)})
		}
	}
	soa := &dns.SOA{
		Hdr: s.header(dns.Fqdn(z.Name), dns.TypeSOA, 1800), Ns: dns.Fqdn(z.NameServers[0]), Mbox: "dns.cloudflare.com.",
		Serial: 2400000000, Refresh: 10000, Retry: 2400, Expire: 604800, Minttl: 1800,
	}
	switch {
	case ask.Qtype == dns.TypeSOA && name == z.Name:
		m.Answer = append(m.Answer, soa)
	case len(m.Answer) == 0:
		m.Ns = append(m.Ns, soa)
		if !exists && name != z.Name {
			m.Rcode = dns.RcodeNameError
		}
	}
}

// published returns what a name held at a time, by itself or by a wildcard. As RFC
// 4592, section 3.3.1, has it, a wildcard stands for names that do not exist only, and
// only below the closest one that does.
func (z *zone) published(name string, when time.Time) (records []*stored, exists bool) {
	if own := z.at(name, when); len(own) > 0 || z.above(name, when) {
		return own, true
	}
	for name != z.Name {
		_, parent, _ := strings.Cut(name, ".")
		if wild := z.at("*."+parent, when); len(wild) > 0 {
			return wild, true
		}
		if len(z.at(parent, when)) > 0 || z.above(parent, when) {
			break
		}
		name = parent
	}
	return nil, false
}

// above reports whether there are records below a name, so that it exists without
// any of its own.
func (z *zone) above(name string, when time.Time) bool {
	for other := range z.past {
		if strings.HasSuffix(other, "."+name) && len(z.at(other, when)) > 0 {
			return true
		}
	}
	return false
}

func (s *Server) header(name string, kind uint16, ttl uint32) dns.RR_Header {
	if s.dns.TTL > 0 {
		ttl = s.dns.TTL
	}
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET, Ttl: ttl}
}

func (s *Server) edgeRecord(ask dns.Question) dns.RR {
	if ask.Qtype == dns.TypeAAAA {
		return &dns.AAAA{Hdr: s.header(ask.Name, dns.TypeAAAA, autoTTL), AAAA: s.cfg.EdgeAAAA.AsSlice()}
	}
	return &dns.A{Hdr: s.header(ask.Name, dns.TypeA, autoTTL), A: s.cfg.EdgeA.AsSlice()}
}

// rr returns a record in the form of DNS; nil if its content has none.
func (s *Server) rr(name string, r *stored) dns.RR {
	ttl := uint32(r.TTL)
	if r.TTL == 1 {
		ttl = autoTTL
	}
	content := r.Content
	switch r.Type {
	case "A", "AAAA":
		addr := netip.MustParseAddr(content) // checked when it was stored
		if r.Type == "A" {
			return &dns.A{Hdr: s.header(name, dns.TypeA, ttl), A: addr.AsSlice()}
		}
		return &dns.AAAA{Hdr: s.header(name, dns.TypeAAAA, ttl), AAAA: addr.AsSlice()}
	case "CNAME", "NS", "PTR":
		content = dns.Fqdn(content)
	case "MX":
		priority := 10
		if r.Priority != nil {
			priority = *r.Priority
		}
		content = fmt.Sprint(priority, " ", dns.Fqdn(content))
	case "TXT":
		if !strings.HasPrefix(content, `"`) {
			content = fmt.Sprintf("%q", content)
		}
	}
	rr, err := dns.NewRR(fmt.Sprintf("%s %d IN %s %s", name, ttl, r.Type, content))
	if err != nil || rr == nil {
		return nil
	}
	rr.Header().Ttl = s.header(name, 0, ttl).Ttl
	return rr
}

// ServeDNS implements dns.Handler.
func (s *Server) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	s.mu.Lock()
	silent := s.dns.Silent
	s.mu.Unlock()
	if silent {
		return
	}
	m := s.Answer(q)
	if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
		size := dns.MinMsgSize
		if opt := q.IsEdns0(); opt != nil {
			size = int(opt.UDPSize())
		}
		m.Truncate(size)
	}
	_ = w.WriteMsg(m)
}

// startDNS answers over UDP and TCP on one port.
func (s *Server) startDNS() error {
	var err error
	for range 10 { // the TCP port of the number that UDP got may be taken
		var l net.Listener
		if l, err = s.listen(); err != nil {
			return err
		}
		var udp net.PacketConn
		if udp, err = net.ListenPacket("udp", l.Addr().String()); err != nil {
			_ = l.Close()
			continue
		}
		s.dnsAddr = l.Addr().(*net.TCPAddr).AddrPort()
		s.serveDNS(&dns.Server{Listener: l, Handler: s})
		s.serveDNS(&dns.Server{PacketConn: udp, Handler: s})
		return nil
	}
	return fmt.Errorf("no free port for DNS: %w", err)
}

func (s *Server) serveDNS(server *dns.Server) {
	ready := make(chan struct{})
	server.NotifyStartedFunc = func() { close(ready) }
	stopped := make(chan struct{})
	s.wg.Go(func() {
		defer close(stopped)
		_ = server.ActivateAndServe()
	})
	select {
	case <-ready:
	case <-stopped:
	}
	s.closers = append(s.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.ShutdownContext(ctx)
	})
}
