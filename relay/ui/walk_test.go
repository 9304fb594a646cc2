package ui_test

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/health"
	"github.com/edgeward/edgeward/relay/link"
	"github.com/edgeward/edgeward/relay/pool"
)

// TestLook: pictures of every page, light, dark and on a phone, where nothing may
// be wider than the screen.
func TestLook(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	for _, host := range []string{"wiki", "git", "mail", "music"} {
		r.route(catalog.Route{Name: host, Hosts: []string{host + ".example.com"}, Pool: "den"})
	}
	r.route(catalog.Route{Name: "ssh", Kind: catalog.TCP, Port: freePort(t), Gateway: "attic", Target: &catalog.Target{Host: "192.168.1.9", Port: 22}})
	r.pool("backup", "attic")
	r.hear("nas", health.Alive)
	r.hear("nuc", health.Alive)
	r.hear("nuc", health.Down)
	r.hear("attic", health.Down)
	beat(t, r, "nas")
	table, err := r.fleet.Table(t.Context(), "nas", "", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.fleet.Applied(t.Context(), "nas", link.Applied{Boot: "1", Report: 2, Hash: table.Hash, Failed: []link.RouteFault{{Route: "photos", Reason: "connection refused"}}}); err != nil {
		t.Fatal(err)
	}
	b := newTab(t, r)
	for _, p := range []struct{ name, path string }{
		{"overview", "/edge/ui/"},
		{"pool", "/edge/ui/pools/den"},
		{"pool-edit", "/edge/ui/pools/den/edit"},
		{"gateways", "/edge/ui/gateways"},
		{"gateway", "/edge/ui/gateways/nas"},
		{"gateway-new", "/edge/ui/new/gateway"},
		{"routes", "/edge/ui/routes"},
		{"route", "/edge/ui/routes/cloud"},
		{"route-new", "/edge/ui/new/route"},
		{"migrate", "/edge/ui/migrate"},
		{"relocate", "/edge/ui/relocate"},
		{"events", "/edge/ui/events"},
		{"confirm", "/edge/ui/gateways/nas/do/disable"},
	} {
		b.run(chromedp.EmulateViewport(1280, 900))
		b.open(p.path)
		b.shot(p.name)
		b.dark(true)
		b.shot(p.name + "-dark")
		b.dark(false)
		b.phone()
		b.shot(p.name + "-phone")
		if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > 360 {
			t.Errorf("%s is %d wide on a phone of 360", p.path, wide)
		}
	}
}

// TestWalk is a person with a browser: a pool of three, sorted by mouse and by
// keyboard, saved and loaded again.
func TestWalk(t *testing.T) {
	r := newRig(t, setup{})
	r.gateways("attic", "cellar", "nas", "nuc")
	b := newTab(t, r)
	b.open("/edge/ui/")
	b.tabTo(`a[href="/edge/ui/new/pool"]`)
	b.press(kb.Enter)
	b.sees("the form", `document.title.startsWith("New pool") && document.readyState === "complete"`)
	b.tabTo("#f-name")
	b.press("den")
	for _, name := range []string{"nas", "attic", "nuc"} {
		b.run(chromedp.SetValue(chromedp.CSS("#f-add"), name), chromedp.Click(chromedp.CSS("[data-add]")))
	}
	if got := eval[string](b, `[...document.querySelectorAll("#f-add option")].map(o => o.value).join(" ")`); got != "cellar" {
		t.Errorf("one may add %q, want cellar: the others are in it", got)
	}
	b.drag("nuc", "nas")
	b.wantOrder("nuc nas attic")
	b.tabTo(`[data-gateway="attic"] [data-move="up"]`)
	b.press(kb.Enter)
	b.wantOrder("nuc attic nas")
	b.press(kb.Enter, kb.Enter) // the focus stays, and at the top it has no effect
	b.wantOrder("attic nuc nas")
	if got := eval[string](b, `document.getElementById("news").textContent`); got != "attic is number 1 of 3" {
		t.Errorf("a screen reader hears %q", got)
	}
	b.tabTo(`[data-gateway="nuc"] [data-move="remove"]`)
	b.press(kb.Enter)
	b.wantOrder("attic nas")
	b.run(chromedp.SetValue(chromedp.CSS("#f-add"), "nuc"), chromedp.Click(chromedp.CSS("[data-add]")))
	b.drag("nuc", "nas")
	b.shot("pool-typed")
	b.tabTo("button.main")
	b.press(kb.Enter)
	b.sees("the pool", `document.title.startsWith("Pool den")`)
	b.open("/edge/ui/pools/den/edit")
	b.wantOrder("attic nuc nas")
	if kept := r.members("den"); kept != "attic nuc nas" {
		t.Errorf("kept is %q", kept)
	}
}

func (b *tab) wantOrder(want string) {
	b.t.Helper()
	if got := b.order(); got != want {
		b.t.Errorf("the order is %q, want %q", got, want)
	}
}

// TestMoveInBrowser: what leads to the gateway itself is not selected until
// somebody says so.
func TestMoveInBrowser(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	b := newTab(t, r)
	b.open("/edge/ui/migrate")
	selected := `[...document.querySelectorAll("[name=route]:checked")].map(e => e.value).join(" ")`
	for _, step := range []struct{ click, want string }{{"", "photos"}, {"[data-all]", "cloud photos"}, {"[data-none]", ""}} {
		if step.click != "" {
			b.run(chromedp.Click(chromedp.CSS(step.click)))
		}
		if got := eval[string](b, selected); got != step.want {
			t.Errorf("after %q there are %q, want %q", step.click, got, step.want)
		}
	}
	b.tabTo(`[value="photos"]`)
	b.press(" ")
	b.run(chromedp.SetValue(chromedp.CSS("#f-pool"), "den"), chromedp.Click(chromedp.CSS("button.main")))
	b.sees("the pool", `document.title.startsWith("Pool den")`)
	if got := r.fleet.Catalog().Routes["photos"].Pool; got != "den" {
		t.Errorf("photos leads to %q", got)
	}
}

// TestLive: what happens is on the screen by itself, told to screen readers, and
// a question is asked before something is done.
func TestLive(t *testing.T) {
	r := newRig(t, setup{}).furnish()
	r.hear("nuc", health.Alive)
	r.hear("nas", health.Alive)
	b := newTab(t, r)
	b.unpolled()
	b.open("/edge/ui/")
	b.sees("it listens", `document.getElementById("live").dataset.state === "on"`)
	b.run(chromedp.Focus(chromedp.CSS(`#pool-den a[href="/edge/ui/gateways/nas"]`)))
	r.hear("nuc", health.Down)
	b.sees("the pool fails over", `document.getElementById("state-den").textContent === "failed over"`)
	b.sees("it is told", `document.getElementById("news").textContent !== ""`)
	b.sees("the event is listed", `document.getElementById("events").textContent.includes("nas took over from nuc")`)
	if !eval[bool](b, `document.activeElement.getAttribute("href") === "/edge/ui/gateways/nas"`) {
		t.Error("the focus is lost when the page is brought up to date")
	}
	r.hear("nuc", health.Alive)
	b.sees("it counts down", `/back in 1[45] min/.test(document.getElementById("pool-den").textContent)`)
	r.pool("more", "attic")
	b.sees("a pool that somebody has made", `document.getElementById("pool-more")`)
	if !eval[bool](b, `document.activeElement.getAttribute("href") === "/edge/ui/gateways/nas"`) {
		t.Error("the focus is lost when something comes to the page")
	}
	b.shot("live")

	b.tabTo(`a[data-confirm][href="/edge/ui/pools/den/do/failback"]`)
	b.press(kb.Enter)
	b.sees("the question", `document.getElementById("dialog").open && document.activeElement.matches("[data-close]")`)
	b.shot("question")
	b.press(kb.Escape)
	b.sees("it is taken back", `!document.getElementById("dialog").open && document.activeElement.matches('[href$="do/failback"]')`)
	b.press(kb.Enter)
	b.sees("the question", `document.getElementById("dialog").open`)
	b.tabTo("#dialog button")
	b.press(kb.Enter)
	b.sees("it is done", `document.querySelector(".note.good")?.textContent === "All cooldowns are over."`)
}

// TestPairInBrowser: from nothing to a gateway whose agent is connected.
func TestPairInBrowser(t *testing.T) {
	r := newRig(t, setup{})
	b := newTab(t, r)
	b.open("/edge/ui/")
	b.run(chromedp.Click(chromedp.CSS(".start a.button")))
	b.sees("the form", `document.title.startsWith("Add a gateway") && document.readyState === "complete"`)
	b.tabTo("#f-name")
	b.press("nuc", kb.Tab, "nowhere", kb.Enter)
	b.sees("what is wrong", `document.activeElement.id === "f-dial" && document.activeElement.value === "nowhere" && document.getElementById("f-dial-error").textContent !== ""`)
	b.shot("wrong")
	b.run(chromedp.SetValue(chromedp.CSS("#f-dial"), "127.0.0.2:9"))
	b.press(kb.Enter)
	b.sees("the offer", `document.getElementById("confirm")`)
	b.run(chromedp.Click(chromedp.CSS("#confirm button")))
	b.sees("the command", `document.getElementById("command")`)
	b.shot("pairing")
	code := eval[string](b, `document.querySelector("code.secret").textContent`)
	if _, err := r.fleet.Pair(t.Context(), code, addr("127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	b.sees("it has enrolled", `document.getElementById("progress").textContent.includes("The agent has enrolled")`)
	beat(t, r, "nuc")
	b.sees("it is connected", `document.getElementById("progress").textContent.includes("Connected: nuc.lan")`)
	if !eval[bool](b, `document.getElementById("command") !== null`) {
		t.Error("the command is gone before it was copied")
	}
	b.shot("paired")
}

// TestLateInBrowser: two people edit the same pool, one of them too late.
func TestLateInBrowser(t *testing.T) {
	r := newRig(t, setup{login: true}).furnish()
	b := newTab(t, r)
	b.open("/edge/ui/pools/den/edit")
	b.shot("login")
	b.tabTo("#f-secret")
	b.press(writer, kb.Enter)
	b.sees("the form", `document.title.startsWith("Edit pool den") && document.readyState === "complete"`)
	r.edit(func(c *catalog.Catalog) (*catalog.Catalog, []event.Event, error) {
		return c.SetMembers("den", []pool.Member{{Gateway: "nas"}, {Gateway: "nuc"}, {Gateway: "attic"}})
	})
	b.run(chromedp.SetValue(chromedp.CSS("#f-policy"), "ip_hash"), chromedp.Click(chromedp.CSS("button.main")))
	b.sees("who was faster", `document.getElementById("late").textContent.includes("by setup")`)
	b.wantOrder("nuc nas")
	b.shot("late")
	b.run(chromedp.Click(chromedp.CSS("#late a")))
	b.sees("what is there", `!document.getElementById("late") && document.getElementById("f-policy").value === "failover"`)
	b.wantOrder("nas nuc attic")
}

// TestWithoutScript: the same, for who has none.
func TestWithoutScript(t *testing.T) {
	r := newRig(t, setup{})
	r.gateways("nas", "nuc")
	b := newTab(t, r)
	b.noScript()
	b.open("/edge/ui/new/pool")
	b.shot("no-script")
	b.run(chromedp.SendKeys(chromedp.CSS("#f-name"), "den"))
	for _, click := range []string{"[data-add]", "[data-add]", `[value="up:1"]`} {
		b.turn(click)
	}
	b.turn("button.main")
	if got := r.members("den"); got != "nuc nas" {
		t.Errorf("the members are %q, want nuc nas", got)
	}
	r.hear("nuc", health.Alive)
	r.hear("nas", health.Alive)
	b.open("/edge/ui/pools/den")
	b.turn(`a[href$="/do/failover"]`)
	b.turn("#confirm button")
	r.eventually("the pool fails over", func() bool { return r.fleet.Snapshot().Pools[0].Members[0].Role == pool.RoleCooldown })
}
