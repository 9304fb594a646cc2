package e2e_test

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestPoolsPage follows docs/pools.md word by word: its first Caddyfile, and its
// commands in order, with gateways that join when their code is traded.
func TestPoolsPage(t *testing.T) {
	t.Parallel()
	if !inNamespace(t) {
		return
	}
	text := string(must(os.ReadFile("../docs/pools.md"))(t))
	f := &fleetRig{relay: newRelay(t), homes: map[string]*homeAgent{}}
	if err := os.WriteFile(f.caddyfile(), []byte(strings.Replace(block(t, text, "caddyfile"), "{\n", "{\n\tadmin "+f.admin+"\n\tskip_install_trust\n\tauto_https disable_redirects\n", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	f.run()
	newGatewayAt(t, "origin", "192.168.1.5:443")
	var joining *homeAgent
	code, commands := "", 0
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "edge-relay" && words[0] != "edge-watchdog" || words[1] == "run" {
			continue
		}
		commands++
		if words[0] == "edge-watchdog" {
			f.pairAs(joining, words[1:], code)
			continue
		}
		out, exit := f.do(append([]string{"edge", "--address", f.admin}, words[2:]...)...)
		if exit != 0 {
			t.Fatalf("%s: exit code %d: %s", strings.TrimSpace(line), exit, out)
		}
		switch words[2] {
		case "code":
			code = strings.Fields(out)[0]
			joining = f.agentAt(words[3], map[string]string{"nuc": "10.8.0.2", "nas": "10.8.0.3"}[words[3]])
		case "serving":
			t.Logf("%s", out)
		}
	}
	if commands < 10 {
		t.Errorf("the page has %d commands", commands)
	}
	f.awaitServed("site", "nuc", 10*time.Second)
	body, err := visitor{addr: "10.8.0.1:443", name: "www.example.com"}.get(t.Context(), "/")
	if err == nil || !strings.Contains(err.Error(), "certificate is valid for") {
		t.Errorf("the site answers %q, %v; want the certificate of example.test", body, err)
	}
}

// block is the first block of a language in a page.
func block(t *testing.T, page, language string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, "```"+language+"\n")
	text, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatalf("there is no %s block", language)
	}
	return text
}

// agentAt starts an agent that is not paired yet.
func (f *fleetRig) agentAt(name, tunnel string) *homeAgent {
	f.t.Helper()
	h := &homeAgent{newProcess(f.t, edgeWatchdog), name, tunnel}
	h.ready = func() bool { return true }
	roots := f.dir + "/data/caddy/pki/authorities/local/root.crt"
	eventually(f.t, 10*time.Second, "the relay has a certificate", func() bool { _, err := os.Stat(roots); return err == nil })
	h.process.write("\tedge_gateway {\n\t\troots "+roots+"\n\t\tlisten "+tunnel+":443\n\t\ttrusted_proxies 10.8.0.0/24\n\t}", "")
	h.run()
	f.homes[name] = h
	return h
}

// pairAs runs the page's command at home.
func (f *fleetRig) pairAs(h *homeAgent, words []string, code string) {
	f.t.Helper()
	words = append([]string{}, words...)
	words[len(words)-1] = code
	if out, exit := h.do(append([]string{"gateway", "--address", h.admin}, words[1:]...)...); exit != 0 {
		f.t.Fatalf("pairing %s: exit code %d: %s", h.name, exit, out)
	}
	eventually(f.t, 10*time.Second, h.name+" is connected", func() bool { return f.agent(h.name).State == "connected" })
}
