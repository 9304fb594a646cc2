package render

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/limit"
)

// frontend writes a listener, or the port of a route.
func (w *writer) frontend(f *front) {
	t := &w.t
	t.about("%s", f.origin)
	if f.tls != nil {
		t.section("frontend "+f.name+" from edgeward", "TLS by server name: %d routes at %s.", f.names.routes, f.tls.Address)
	} else {
		t.section("frontend "+f.name+" from edgeward", "TCP of %s.", f.origin)
	}
	t.line("bind %s", f.bind)
	w.frontTimeouts(f)
	w.limits(f)
	if f.tls == nil {
		t.line("default_backend %s", f.to)
	} else {
		w.hello(f)
		w.route(f)
	}
	w.log(f)
}

// frontTimeouts takes the longest of the pools behind it: the rest is up to the
// backend, whose tunnel timeout rules once both sides are connected. Behind trusted
// proxies it is the time for a ClientHello: HAProxy waits for a PROXY header before
// it comes to any rule, and so to the inspect-delay.
func (w *writer) frontTimeouts(f *front) {
	var idle, linger time.Duration
	for to := range f.leads() {
		if b := w.backends[to]; b != nil {
			p := w.pools[b.pool]
			idle, linger = longer(idle, p.Idle), longer(linger, p.Linger)
		}
	}
	if f.proxied() {
		w.t.comment("For a PROXY header and a ClientHello. Later the pool's timeout tunnel holds.")
		idle = time.Duration(f.tls.HelloTime)
	}
	if idle != 0 {
		w.t.line("timeout client %s", orNever(idle))
	}
	if linger != 0 {
		w.t.line("timeout client-fin %s", orNever(linger))
	}
}

// proxied reports whether some visitors open with a PROXY header.
func (f *front) proxied() bool { return f.tls != nil && len(f.tls.TrustedProxies) > 0 }

// longer returns the longer of two; negative is without end.
func longer(a, b time.Duration) time.Duration {
	if a < 0 || b < 0 {
		return -1
	}
	return max(a, b)
}

// leads returns the backends that visitors come to.
func (f *front) leads() map[string]bool {
	all := map[string]bool{f.to: true, f.names.fallback: true, f.names.noName: true}
	for _, names := range []map[string]string{f.names.exact, f.names.wild} {
		for _, to := range names {
			all[to] = true
		}
	}
	return all
}

// limits writes what is refused before anything is read. Behind trusted proxies the
// source is known once the PROXY header is there, and so the rules come then.
func (w *writer) limits(f *front) {
	t, l, when := &w.t, f.limits, "connection"
	if f.proxied() {
		w.acl("proxy", f.tls.TrustedProxies)
		t.line("tcp-request connection expect-proxy layer4 if proxy")
		when = "session"
	}
	if len(l.Deny) > 0 {
		w.acl("denied", l.Deny)
		t.line("tcp-request %s reject if denied", when)
	}
	if l.PerSource > 0 || l.Rate > 0 {
		w.perSource(l, when)
	}
	if l.Total > 0 {
		w.total(l, when)
	}
	if l.TotalRate > 0 {
		t.comment("What is beyond waits in the kernel's queue.")
		t.line("rate-limit sessions %d", int(l.TotalRate))
	}
}

func (w *writer) perSource(l Limits, when string) {
	t := &w.t
	v4, v6 := l.prefixes()
	expire, rate := 30*time.Second, ""
	window, burst := time.Duration(0), 0
	if l.Rate > 0 {
		window, burst = l.window()
		expire, rate = min(max(expire, 2*window), maxDuration), ",conn_rate("+span(window)+")"
	}
	t.comment("A source is a /%d of IPv4 or a /%d of IPv6. \"type ip\" would not count IPv6 at all.", v4, v6)
	t.line("stick-table type ipv6 size %d expire %s store conn_cur%s", cmp.Or(l.Table, limit.DefaultTable), span(expire), rate)
	unless := ""
	if len(l.Allow) > 0 {
		w.acl("unlimited", l.Allow)
		unless = " unless unlimited"
	}
	t.line("tcp-request %s track-sc0 src,ipmask(%d,%d)%s", when, v4, v6, unless)
	if l.PerSource > 0 {
		t.line("tcp-request %s reject if { sc0_conn_cur gt %d }", when, l.PerSource)
	}
	if l.Rate > 0 {
		t.line("tcp-request %s reject if { sc0_conn_rate gt %d }", when, burst)
	}
}

func (w *writer) total(l Limits, when string) {
	if l.Wait {
		w.t.line("maxconn %d", l.Total)
		return
	}
	w.t.comment("Refuse instead of letting visitors wait: hence the room above the total.")
	w.t.line("tcp-request %s reject if { fe_conn gt %d }", when, l.Total)
	w.t.line("maxconn %d", min(headroom(l.Total), maxConn))
}

// acl lists prefixes, a few on each line: HAProxy takes 64 words in one.
func (w *writer) acl(name string, prefixes []netip.Prefix) {
	for some := range slices.Chunk(prefixes, 8) {
		words := make([]string, len(some))
		for i, p := range some {
			words[i] = p.Masked().String()
		}
		w.t.line("acl %s src %s", name, strings.Join(words, " "))
	}
}

// hello writes how the name is read. The order matters: the first content rule waits
// for the whole ClientHello, over any number of segments; without it HAProxy would
// look at what the first segment holds, and cut off what post-quantum clients send.
func (w *writer) hello(f *front) {
	t := &w.t
	t.comment("Wait for the ClientHello. What is no TLS is refused at its first byte.")
	t.line("tcp-request inspect-delay %s", span(time.Duration(f.tls.HelloTime)))
	t.line("tcp-request content set-var(sess.edge_why) str(not_tls) if !{ req.ssl_hello_type 1 }")
	t.line("tcp-request content reject if !{ req.ssl_hello_type 1 }")
	if f.tls.HostNames {
		t.line("tcp-request content set-var(sess.edge_name) req.ssl_sni,lower")
	} else {
		t.line(`tcp-request content set-var(sess.edge_name) 'req.ssl_sni,lower,regsub("\.$",)'`)
	}
	t.comment("What no name holds is not looked up, where a NUL byte would end it, and not logged.")
	t.line(`tcp-request content set-var(sess.edge_why) str(bad_name) if { var(sess.edge_name) -m reg '^$|^\.|[^a-z0-9._-]' } || { req.ssl_sni,length gt %d }`, maxName)
	if f.tls.HostNames {
		t.line(`tcp-request content set-var(sess.edge_why) str(bad_name) if { var(sess.edge_name) -m found } !{ var(sess.edge_name) -m reg '^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?$' }`)
	}
	t.line("tcp-request content unset-var(sess.edge_name) if { var(sess.edge_why) -m str bad_name }")
	t.line("tcp-request content reject if { var(sess.edge_why) -m str bad_name }")
}

// log writes one line for each connection, with the name and why it was refused.
func (w *writer) log(f *front) {
	if w.Process.Log == "off" {
		return
	}
	more := ""
	if f.tls != nil {
		more = " why=%[var(sess.edge_why)] sni=%{+Q,+E}[var(sess.edge_name)]"
	}
	w.t.flush(`    log-format '%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %U %ts %ac/%fc/%bc/%sc/%rc` + more + `'`)
}
