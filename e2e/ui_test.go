package e2e_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// browser is a real Chromium, with one page.
type browser struct {
	t   testing.TB
	ctx context.Context
}

func newBrowser(t testing.TB) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(tool(t, "chromium")))
	if os.Getuid() == 0 { // it refuses to run as root with its sandbox
		options = append(options, chromedp.NoSandbox)
	}
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(func() { end(); endAllocator() })
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
		missing(t, "a Chromium that starts: %v", err)
	}
	return &browser{t, ctx}
}

// do runs actions, each within a time.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 20*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// is asks the page.
func (b *browser) is(script string) bool {
	yes, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+script+")"))
	return err == nil && yes
}

// sees waits until the page is as a script says.
func (b *browser) sees(what, script string) {
	b.t.Helper()
	if !within(b.t.Context(), 20*time.Second, func() bool { return b.is(script) }) {
		text, _ := chromedp.Run(b.ctx, chromedp.Text(chromedp.CSS("body")))
		b.t.Fatalf("not seen: %s, but\n%s", what, text)
	}
}

// titled waits for a page that is whole.
func (b *browser) titled(title string) {
	b.t.Helper()
	b.sees("the page "+title, fmt.Sprintf("document.title.startsWith(%q) && document.readyState === 'complete'", title))
}

// fill types into fields, and presses the button of the form.
func (b *browser) fill(fields map[string]string) {
	b.t.Helper()
	for id, value := range fields {
		b.do(chromedp.SetValue(chromedp.CSS(`[id="`+id+`"]`), value))
	}
	b.do(chromedp.Click(chromedp.CSS("form button.main")))
}

// shot keeps a picture where EDGE_ARTIFACTS says.
func (b *browser) shot(name string) {
	b.t.Helper()
	dir := os.Getenv("EDGE_ARTIFACTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(dir+"/e2e-ui-"+name+".png", png, 0o644)
	}
	if err != nil {
		b.t.Error("keeping a picture:", err)
	}
}

// TestPage: a person with a browser and a token makes gateways, a pool and a route,
// and watches one gateway die; no config file is opened for it.
func TestPage(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	const secret = "a-token-for-the-page-0123456789"
	public, page := freeAddr(t, "127.0.0.1"), freeAddr(t, "127.0.0.1")
	r := startRelay(t, "\tedge {\n\t\tlisten "+public+"\n\t}", fmt.Sprintf("http://%s {\n\tedge_api {\n\t\ttoken lena %s write\n\t}\n}", page, secret))
	root := "http://" + page + "/edge/ui/"
	b.do(chromedp.Navigate(root))
	b.titled("Log in")
	b.fill(map[string]string{"f-secret": secret})
	b.titled("Overview")

	homes := map[string]*gateway{}
	for _, name := range []string{"nas", "nuc"} {
		homes[name] = newGateway(t, name)
		b.do(chromedp.Navigate(root + "new/gateway"))
		b.fill(map[string]string{"f-name": name, "f-dial": homes[name].addr})
		b.titled("Make a pairing code for gateway " + name)
	}
	b.do(chromedp.Navigate(root + "new/pool"))
	b.titled("New pool")
	b.do(chromedp.Click(chromedp.CSS("[data-add]")), chromedp.Click(chromedp.CSS("[data-add]")), chromedp.Click(chromedp.CSS(`[data-gateway="nuc"] [data-move="up"]`)))
	b.fill(map[string]string{"f-name": "home", "f-preset": "own", "f-failback": "1s"})
	b.titled("Pool home")
	b.do(chromedp.Navigate(root + "new/route"))
	b.titled("New route")
	b.fill(map[string]string{"f-name": "site", "f-hosts": "www.example.test", "f-pool": "home"})
	b.titled("Route site")
	r.awaitServing("home", "nuc", 10*time.Second)
	visit := func(want string) {
		t.Helper()
		if body, err := (visitor{addr: public}).get(t.Context(), "/"); body != want {
			t.Errorf("a visitor is served by %q, want %s: %v", body, want, err)
		}
	}
	visit("nuc")

	b.do(chromedp.Navigate(root))
	b.titled("Overview")
	b.sees("all is served", `document.querySelector("h1").textContent === "All is served"`)
	homes["nuc"].kill()
	b.sees("nas stands in", `document.getElementById("state-home").textContent === "failed over" && document.getElementById("events").textContent.includes("nas took over from nuc")`)
	visit("nas")
	b.shot("died")
	homes["nuc"].revive()
	b.sees("nuc is back", `document.getElementById("state-home").textContent === "serving"`)
	if log := r.log(); strings.Contains(log, secret) {
		t.Error("the log holds the token")
	}
}

// TestPageAtAdmin: Caddy's own admin endpoint serves the page to a browser, if its
// origins say so: it refuses an address that was typed, which comes from no origin.
func TestPageAtAdmin(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	home := newGateway(t, "nuc")
	r := newRelay(t)
	text := r.write(fmt.Sprintf("\tedge {\n\t\tgateway nuc {\n\t\t\tdial %s\n\t\t}\n\t\tpool home {\n\t\t\tmembers nuc\n\t\t}\n\t}", home.addr), "")
	text = strings.Replace(text, "admin "+r.admin, fmt.Sprintf("admin %s {\n\t\torigins %[1]s \"\"\n\t}", r.admin), 1)
	if err := os.WriteFile(r.caddyfile(), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	r.run()
	b.do(chromedp.Navigate("http://" + r.admin + "/edge/ui/gateways/nuc"))
	b.titled("Gateway nuc")
	b.sees("script and style are there", `document.documentElement.classList.contains("js") && getComputedStyle(document.querySelector(".top")).position === "sticky"`)
	b.sees("it is live", `document.getElementById("live").dataset.state === "on"`)
	b.do(chromedp.Click(chromedp.CSS(`a[href$="/do/drain"]`)))
	b.sees("the question", `document.getElementById("dialog").open`)
	b.do(chromedp.Click(chromedp.CSS("#dialog button")))
	b.sees("it is drained", `document.getElementById("state").textContent.includes("drain")`)
	if op := r.gateway("nuc").Operator; op != "drain" {
		t.Errorf("nuc is %s, want drain", op)
	}
}
