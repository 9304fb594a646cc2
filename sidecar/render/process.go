package render

import (
	"time"
)

// process writes what concerns all of HAProxy, and the defaults of all sections.
func (w *writer) process() {
	p, t := w.Process, &w.t
	t.section("global", "The process.")
	if p.Log != "off" {
		t.line("log %s%s %s", p.Log, logFormat(p.Log), p.Facility)
	}
	t.line("user %s", p.User)
	t.line("group %s", p.Group)
	if p.Chroot != "" {
		t.line("chroot %s", p.Chroot)
	}
	if n := w.maxConn(); n > 0 {
		t.line("maxconn %d", n)
	}
	if p.Drain > 0 {
		t.comment("Connections go on in the old worker after a reload, until then.")
		t.line("hard-stop-after %s", span(time.Duration(p.Drain)))
	}
	t.comment("Room for a ClientHello: a buffer without what HAProxy keeps free of it.")
	t.line("tune.bufsize %d", p.BufSize)
	t.line("tune.maxrewrite %d", maxRewrite)
	if p.NoSplice {
		t.line("nosplice")
	}
	w.socket()
	t.line("server-state-file %s", p.StateFile)
	w.defaults()
	w.resolvers()
}

func logFormat(target string) string {
	if target == "stdout" {
		return " format raw"
	}
	return ""
}

// socket gives the least that is needed: with HAProxy's own checks, what reads the
// states; without them, what sets them.
func (w *writer) socket() {
	s, level := w.Process.Socket, "operator"
	if w.Health == BySidecar {
		level = "admin"
	}
	owner := ""
	if s.User != "" {
		owner += " user " + s.User
	}
	if s.Group != "" {
		owner += " group " + s.Group
	}
	w.t.line("stats socket %s%s mode %s level %s", s.Path, owner, s.Mode, level)
	w.t.line("stats timeout 10s")
}

func (w *writer) defaults() {
	t := &w.t
	t.section("defaults edgeward", "What holds everywhere. Timeouts of traffic are with the pools.")
	t.line("mode tcp")
	if w.Process.Log != "off" {
		t.line("log global")
	}
	t.line("option dontlognull")
	t.comment("A dial that fails goes to another member, within the visitor's connection.")
	t.line("retries 3")
	t.line("option redispatch 1")
	t.comment("Notice peers that are gone without a word.")
	for _, side := range []string{"cli", "srv"} {
		t.line("option %stcpka", side)
		t.line("%stcpka-idle 1m", side)
		t.line("%stcpka-intvl 15s", side)
		t.line("%stcpka-cnt 4", side)
	}
	if !w.Process.NoSplice {
		t.comment("Both ways in the kernel. splice-auto was measured to do nothing here.")
		t.line("option splice-request")
		t.line("option splice-response")
	}
	t.line("timeout connect 1s")
	t.line("timeout client 1h")
	t.line("timeout server 1h")
	t.line("timeout queue 5s")
	t.comment("What the servers were before a reload.")
	t.line("load-server-state-from-file global")
}

func (w *writer) resolvers() {
	if len(w.Process.Resolvers) == 0 || w.follows() {
		return
	}
	w.t.section("resolvers edgeward", "Gateways' host names are asked of these.")
	for i, r := range w.Process.Resolvers {
		w.t.line("nameserver ns%d %s", i+1, r)
	}
	w.t.comment("A name that is gone for a while is no reason to forget where the gateway is.")
	for _, kind := range []string{"nx", "refused", "timeout", "other", "obsolete"} {
		w.t.line("hold %s 1h", kind)
	}
	w.t.line("hold valid 10s")
}

// headroom is how many connections there may be beyond a total, so that they can be
// refused instead of waiting.
func headroom(total int) int { return total + total/10 + 32 }

// maxConn returns the most connections in all, 0 for HAProxy's own choice.
func (w *writer) maxConn() int {
	if w.Process.MaxConn > 0 {
		return w.Process.MaxConn
	}
	sum := 0
	for _, f := range w.fronts {
		switch {
		case f.limits.Total == 0:
			return 0
		case f.limits.Wait:
			sum += f.limits.Total
		default:
			sum += headroom(f.limits.Total)
		}
	}
	return min(sum, maxConn)
}
