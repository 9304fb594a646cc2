package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// chromium is started once, by the first test that needs it.
var chromium = struct {
	once sync.Once
	ctx  context.Context
	end  context.CancelFunc
	err  error
}{end: func() {}}

func TestMain(m *testing.M) {
	code := m.Run()
	chromium.end()
	os.Exit(code)
}

func startChromium() {
	path, err := exec.LookPath("chromium")
	if err != nil {
		chromium.err = err
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.Flag("disable-dev-shm-usage", true))
	if os.Getuid() == 0 { // it refuses to run as root with its sandbox
		options = append(options, chromedp.NoSandbox)
	}
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endBrowser := chromedp.NewContext(allocator)
	chromium.ctx, chromium.end = ctx, func() { endBrowser(); endAllocator() }
	chromium.err = chromedp.Do(ctx)
}

// tab is a page in a real browser.
type tab struct {
	t    testing.TB
	ctx  context.Context
	base string

	mu    sync.Mutex
	wrong []string // what the console complains of
}

func newTab(t testing.TB, r *rig) *tab {
	t.Helper()
	chromium.once.Do(startChromium)
	if chromium.err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("CI lacks chromium: %v", chromium.err)
		}
		t.Skipf("this machine lacks chromium: %v", chromium.err)
	}
	mux := http.NewServeMux()
	mux.Handle("/edge/ui/", r.ui)
	mux.Handle("/edge/", r.api)
	server := httptest.NewServer(mux)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	ctx, stop := context.WithTimeout(ctx, 60*time.Second)
	t.Cleanup(func() { stop(); cancel() })
	b := &tab{t: t, ctx: ctx, base: server.URL}
	if err := chromedp.Listen(ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	b.run(chromedp.EmulateViewport(1280, 900))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.wrong) > 0 {
			t.Errorf("the browser complains: %s", strings.Join(b.wrong, "\n"))
		}
	})
	return b
}

// listen hears of scripts that break, and of what the policy has blocked.
func (b *tab) listen(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, ev.ExceptionDetails.Text+" "+ev.ExceptionDetails.Exception.Description)
	case *log.EventEntryAdded:
		if strings.Contains(ev.Entry.Text, "Content Security Policy") {
			b.wrong = append(b.wrong, ev.Entry.Text)
		}
	}
}

func (b *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.shot("failed")
		b.t.Fatal(err)
	}
}

func (b *tab) open(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.base+path), chromedp.WaitReady(chromedp.CSS("main")))
}

// eval asks the page.
func eval[T any](b *tab, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	if err != nil {
		b.shot("failed")
		b.t.Fatal(err)
	}
	return v
}

// sees waits until a script says true.
func (b *tab) sees(what, script string) {
	b.t.Helper()
	limit := time.After(15 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// One by one: a question does not outlive the page that it was asked of.
		if yes, err := chromedp.Run(b.ctx, chromedp.Evaluate[bool]("!!("+script+")")); err == nil && yes {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			b.shot("failed")
			b.t.Fatalf("not seen: %s", what)
		}
	}
}

// press sends keys to what has the focus.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, key := range keys {
		b.run(chromedp.KeyEvent(key))
	}
}

// tabTo presses Tab until something has the focus, so it is reachable by keyboard
// and the focus is visible.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	for range 80 {
		b.press(kb.Tab)
		if eval[bool](b, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			if !eval[bool](b, "parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2") {
				b.t.Errorf("%s has the focus, and nobody sees it", selector)
			}
			return
		}
	}
	b.shot("failed")
	b.t.Fatalf("the keyboard does not reach %s", selector)
}

// drag takes a row by its handle to the place of another one.
func (b *tab) drag(from, to string) {
	b.t.Helper()
	place := func(gateway string) (at []float64) {
		return eval[[]float64](b, fmt.Sprintf(`(() => {
			const r = document.querySelector('[data-gateway=%q] .grip').getBoundingClientRect();
			return [r.x + r.width / 2, r.y + r.height / 2];
		})()`, gateway))
	}
	b.run(chromedp.ScrollIntoView(chromedp.CSS(`[data-sort]`)))
	a, z := place(from), place(to)
	mouse := func(kind input.DispatchMouseEventType, x, y float64) chromedp.Action[chromedp.Void] {
		return chromedp.MouseEvent(kind, x, y, chromedp.ButtonLeft, chromedp.ClickCount(1), func(p *input.DispatchMouseEventParams) { p.Buttons = 1 })
	}
	b.run(mouse(chromedp.MousePressed, a[0], a[1]))
	for i := 1; i <= 5; i++ {
		b.run(mouse(chromedp.MouseMoved, a[0], a[1]+(z[1]-a[1])*float64(i)/5))
	}
	end := z[1] - 2
	if z[1] > a[1] {
		end = z[1] + 2
	}
	b.run(mouse(chromedp.MouseMoved, z[0], end), mouse(chromedp.MouseReleased, z[0], end))
}

// order is the members as the form has them.
func (b *tab) order() string {
	return eval[string](b, `[...document.querySelectorAll('[data-sort] [name=member]')].map(e => e.value).join(' ')`)
}

func (b *tab) phone() {
	b.t.Helper()
	b.run(chromedp.EmulateViewport(360, 740, chromedp.EmulateMobile, chromedp.EmulateTouch))
}

func (b *tab) dark(on bool) {
	b.t.Helper()
	value := "light"
	if on {
		value = "dark"
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media); err != nil {
		b.t.Fatal(err)
	}
}

// shot keeps a picture where EDGE_ARTIFACTS says.
func (b *tab) shot(name string) {
	dir := os.Getenv("EDGE_ARTIFACTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Log("no picture:", err)
		return
	}
	_ = os.MkdirAll(dir, 0o755)
	if err := os.WriteFile(filepath.Join(dir, "ui-"+name+".png"), png, 0o644); err != nil {
		b.t.Error(err)
	}
}

// unpolled is a browser in which the pages hear of nothing but by their streams.
func (b *tab) unpolled() {
	b.t.Helper()
	script := page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `{ const every = setInterval; window.setInterval = (f, ms) => ms < 10000 ? every(f, ms) : 0; }`,
	}
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, script); err != nil {
		b.t.Fatal(err)
	}
}

// noScript is a browser that runs none of the pages' scripts.
func (b *tab) noScript() {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		b.t.Fatal(err)
	}
}

// turn clicks, and waits for the page that comes of it.
func (b *tab) turn(selector string) {
	b.t.Helper()
	if _, err := chromedp.RunResponse(b.ctx, chromedp.Click(chromedp.CSS(selector))); err != nil {
		b.shot("failed")
		b.t.Fatalf("clicking %s: %v", selector, err)
	}
}
