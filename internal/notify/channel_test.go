package notify_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/edgeward/edgeward/internal/notify"
)

// secrets are parts of URLs in these tests. None may show up anywhere.
var secrets = []string{"s3cr3t", "T0ken", "hunter2", "AAAAAAAAAAAAAAA"}

func leaks(text string) bool {
	for _, s := range secrets {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

func TestNew(t *testing.T) {
	for _, tc := range []struct{ url, name, fails string }{
		{url: "https://discord.com/api/webhooks/1/T0ken", name: "discord"},
		{url: "https://ptb.discord.com/api/v10/webhooks/1/T0ken?thread_id=5", name: "discord"},
		{url: "https://discord.com/api/webhooks/1/T0ken/slack", name: "discord"},
		{url: "https://discord.com/api/webhooks/1/T0ken/github", fails: "/github"},
		{url: "https://discord.com/other/T0ken", name: "webhook"},
		{url: "https://discord.com.example.net/api/webhooks/1/T0ken", name: "webhook"},
		{url: "discord+http://127.0.0.1:1/T0ken", name: "discord"},
		{url: "discord://T0ken@1", name: "discord"},
		{url: "https://hooks.slack.com/services/T0ken", name: "slack"},
		{url: "slack+https://chat.example.com/hooks/T0ken", name: "slack"},
		{url: "webhook+https://example.com/T0ken", name: "webhook"},
		{url: "http://127.0.0.1:1/T0ken", name: "webhook"},
		{url: "telegram://123456789:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA@telegram?chats=1", name: "telegram"},
		{url: "ntfy://user:hunter2@127.0.0.1:1/topic?scheme=http", name: "ntfy"},
		{url: "smtp://user:hunter2@127.0.0.1:1/?from=a@example.com&to=b@example.com", name: "smtp"},
		{url: "", fails: "no scheme"},
		{url: "hunter2", fails: "no scheme"},
		{url: "hunter2:T0ken", fails: "no //"},
		{url: "https:///hunter2", fails: "no host"},
		{url: "https://exa mple.com/hunter2", fails: "cannot be read"},
		{url: "https://%zz/hunter2", fails: "cannot be read"},
		{url: "nosuch://T0ken@hunter2", fails: `no service "nosuch"`},
		{url: "nosuch+https://T0ken@hunter2", fails: "no service"},
		{url: "ntfy+https://T0ken@hunter2", fails: "ntfy+https"},
		{url: "logger://", fails: "tells nobody"},
		{url: "telegram://T0ken@telegram", fails: "is not complete"},
		{url: "slack://T0ken@hunter2", fails: "is not complete"},
		{url: "gotify://host/T0ken?hunter2=s3cr3t", fails: "is not complete"},
		{url: "smtp://user:hunter2@host/?from=a@example.com", fails: "must be smtp://"},
		{url: "smtp://user:hunter2@host/?from=hunter2&to=b@example.com", fails: "from is not"},
		{url: "smtp://user:hunter2@host/?from=a@example.com&to=hunter2", fails: "to is not"},
		{url: "smtp://user:hunter2@host/?from=a@example.com%0d%0aBcc:x&to=b@example.com", fails: "from is not"},
	} {
		t.Run(tc.url, func(t *testing.T) {
			ch, err := notify.New(notify.Config{URL: hidden(tc.url)})
			switch {
			case err == nil && ch.Name() != tc.name:
				t.Errorf("it is called %q, want %q", ch.Name(), tc.name)
			case err != nil && (tc.fails == "" || !strings.Contains(err.Error(), tc.fails)):
				t.Errorf("error is %v, want %q in it", err, tc.fails)
			case err == nil && tc.fails != "":
				t.Error("it was taken")
			case err != nil && leaks(err.Error()):
				t.Errorf("the error holds a secret: %v", err)
			}
		})
	}
	if _, err := notify.New(notify.Config{URL: hidden("discord://T0ken@1"), Secret: hidden("s3cr3t")}); err == nil || leaks(err.Error()) {
		t.Errorf("signing what is not signed: %v", err)
	}
}

func TestWebhook(t *testing.T) {
	url, got := serve(t, nil)
	m := message(switched())
	m.Sent = m.At.Add(2 * time.Hour)
	key := "s3cr3t-s3cr3t"
	ch := channel(t, notify.Config{URL: hidden(url + "/T0ken?a=b"), Secret: hidden(key)})
	plain := channel(t, notify.Config{URL: hidden(url)})
	for range 2 {
		if err := ch.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := plain.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r := got()[0]
	if r.Method != "POST" || r.URL.Path != "/T0ken" || r.URL.RawQuery != "a=b" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Edge-Event") != "switched" {
		t.Errorf("request is %s %s %v", r.Method, r.URL, r.Header)
	}
	if id := r.Header.Get("X-Edge-Id"); id != m.ID || got()[1].Header.Get("X-Edge-Id") != id {
		t.Errorf("ids are %q and %q", id, got()[1].Header.Get("X-Edge-Id"))
	}
	var unix int64
	var sum string
	if n, err := fmt.Sscanf(r.Header.Get("X-Edge-Signature"), "t=%d,v1=%s", &unix, &sum); n != 2 || err != nil {
		t.Fatalf("signature is %q", r.Header.Get("X-Edge-Signature"))
	}
	mac := hmac.New(sha256.New, []byte(key))
	fmt.Fprintf(mac, "%d.%s", unix, r.body)
	if want := hex.EncodeToString(mac.Sum(nil)); sum != want || time.Since(time.Unix(unix, 0)).Abs() > time.Minute {
		t.Errorf("signature is %s of %d, want %s", sum, unix, want)
	}
	if s := got()[2].Header.Get("X-Edge-Signature"); s != "" {
		t.Errorf("signed without a secret: %s", s)
	}
	var body struct {
		ID      string
		Title   string
		Delayed int `json:"delayed_seconds"`
		Event   struct {
			Kind  string
			At    time.Time
			Paths []struct {
				Name, Value string
				Addresses   []string
			}
		}
	}
	if err := json.Unmarshal([]byte(r.body), &body); err != nil {
		t.Fatal(err)
	}
	if body.ID != m.ID || body.Delayed != 7200 || body.Event.Kind != "switched" || !body.Event.At.Equal(noon) ||
		body.Event.Paths[0].Value != "bad" || body.Event.Paths[2].Value != "unknown" || body.Event.Paths[0].Addresses[1] != "2001:db8::7" {
		t.Errorf("body is %s", r.body)
	}
}

// TestAnswers: what an answer means, for all that speak HTTP.
func TestAnswers(t *testing.T) {
	date := time.Now().Add(30 * time.Minute).UTC().Format(http.TimeFormat)
	for _, tc := range []struct {
		status    int
		header    string
		body      string
		permanent bool
		channel   bool
		after     time.Duration // give or take two seconds
	}{
		{status: 200},
		{status: 201},
		{status: 204},
		{status: 301, permanent: true, channel: true},
		{status: 307, permanent: true, channel: true},
		{status: 400, permanent: true},
		{status: 401, permanent: true, channel: true},
		{status: 403, permanent: true, channel: true},
		{status: 404, permanent: true, channel: true},
		{status: 410, permanent: true, channel: true},
		{status: 413, permanent: true},
		{status: 408},
		{status: 425},
		{status: 429},
		{status: 500},
		{status: 503},
		{status: 429, header: "120", after: 2 * time.Minute},
		{status: 503, header: date, after: 30 * time.Minute},
		{status: 429, header: "99999999999999999999999999"},
		{status: 429, header: "999999999999999999", after: time.Hour},
		{status: 429, header: "-5"},
		{status: 429, header: "soon"},
		{status: 429, header: "Mon, 01 Jan 1990 00:00:00 GMT"},
		{status: 429, body: `{"retry_after": 64.57, "global": false}`, after: 65 * time.Second},
		{status: 429, body: `{"retry_after": 64}`, header: "120", after: 120 * time.Second},
		{status: 429, body: `{"retry_after": 1e300}`, after: time.Hour},
		{status: 429, body: `{"retry_after": "x"}`},
		{status: 429, body: `{"retry_after": -1}`},
	} {
		url, got := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			if tc.header != "" {
				w.Header().Set("Retry-After", tc.header)
			}
			w.WriteHeader(tc.status)
			_, _ = io.WriteString(w, tc.body)
		})
		for _, kind := range []string{"", "discord+", "slack+"} {
			if tc.body != "" && kind == "" {
				continue // only chats say it in the body
			}
			t.Run(fmt.Sprintf("%s%d %s %s", kind, tc.status, tc.header, tc.body), func(t *testing.T) {
				before := len(got())
				err := channel(t, notify.Config{URL: hidden(kind + url + "/T0ken")}).Send(t.Context(), message(switched()))
				if n := len(got()) - before; n != 1 {
					t.Errorf("%d requests", n)
				}
				if (err == nil) != (tc.status < 300) {
					t.Errorf("error is %v", err)
				}
				pe, permanent := errors.AsType[*notify.PermanentError](err)
				if permanent != tc.permanent || permanent && pe.Channel != tc.channel {
					t.Errorf("error is %#v", err)
				}
				var after time.Duration
				if re, ok := errors.AsType[*notify.RetryError](err); ok {
					after = re.After
				}
				if (after - tc.after).Abs() > 2*time.Second {
					t.Errorf("wait for %s, want %s", after, tc.after)
				}
				if err != nil && (leaks(err.Error()) || !strings.Contains(err.Error(), fmt.Sprint(tc.status))) {
					t.Errorf("error is %v", err)
				}
			})
		}
	}
}

// TestUnreachable: no error of any channel repeats its URL or an answer.
func TestUnreachable(t *testing.T) {
	release := make(chan struct{})
	hang, _ := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	var hanging []notify.Channel
	closing, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			c.Close()
		}
	})
	telling, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error":"hunter2 `+r.URL.String()+`"}`, http.StatusInternalServerError)
	})
	secure := httptest.NewTLSServer(nil)
	secure.Config.ErrorLog = stdlog.New(io.Discard, "", 0)
	defer secure.Close()
	host := func(url string) string { return strings.TrimPrefix(strings.TrimPrefix(url, "http://"), "https://") }
	var log buffer
	for _, url := range []string{
		"http://127.0.0.1:1/T0ken", hang + "/T0ken", closing + "/T0ken", telling + "/T0ken", secure.URL + "/T0ken",
		"discord+" + telling + "/T0ken", "slack+" + closing + "/T0ken",
		"ntfy://user:hunter2@127.0.0.1:1/T0ken?scheme=http", "ntfy://user:hunter2@" + host(telling) + "/T0ken?scheme=http", "ntfy://user:hunter2@" + host(hang) + "/T0ken?scheme=http",
		"gotify://127.0.0.1:1/AAAAAAAAAAAAAAA?disabletls=yes", "gotify://" + host(telling) + "/AAAAAAAAAAAAAAA?disabletls=yes",
		"gotify://" + host(secure.URL) + "/AAAAAAAAAAAAAAA",
		"generic+" + telling + "/T0ken?hunter2=s3cr3t",
		"smtp://user:hunter2@127.0.0.1:1/?from=a@example.com&to=b@example.com",
		"smtp://user:hunter2@" + host(telling) + "/?from=a@example.com&to=b@example.com",
	} {
		t.Run(url, func(t *testing.T) {
			ch, err := notify.New(notify.Config{Name: "x", URL: hidden(url), Timeout: 300 * time.Millisecond, Log: log.logger()})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			err = ch.Send(t.Context(), message(switched()))
			if err == nil || leaks(err.Error()) || strings.Contains(err.Error(), "127.0.0.1") {
				t.Errorf("error is %v", err)
			}
			t.Log(err)
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("it took %s", took)
			}
			b := newOutbox(t, nil, notify.Options{Log: log.logger()}, ch)
			post(t, b, switched())
			err = b.Flush(t.Context())
			stats, merr := json.Marshal(b.Stats())
			if err == nil || merr != nil || leaks(err.Error()+string(stats)) || b.Stats().Channels[0].LastError == "" {
				t.Errorf("outbox says %v: %s", err, stats)
			}
			if text := fmt.Sprintf("%v %+v", b.Stats(), ch.Name()); leaks(text) {
				t.Errorf("printed: %s", text)
			}
			if strings.Contains(url, host(hang)) {
				hanging = append(hanging, ch)
			} else if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	close(release)
	for _, ch := range hanging {
		if err := ch.Close(); err != nil {
			t.Error(err)
		}
	}
	if leaks(log.String()) || !strings.Contains(log.String(), "could not be delivered") {
		t.Errorf("the log is %s", log.String())
	}
}

// embeds is what Discord gets.
type embeds struct {
	Embeds []struct {
		Title, Description string
		Color              int
		Timestamp          time.Time
		Fields             []struct {
			Name, Value string
			Inline      bool
		}
		Footer struct{ Text string }
	}
	AllowedMentions struct{ Parse []string } `json:"allowed_mentions"`
}

func discord(t *testing.T, m notify.Message) (embeds, string) {
	t.Helper()
	url, got := serve(t, nil)
	ch := channel(t, notify.Config{URL: hidden("discord+" + url + "/api/webhooks/1/T0ken?thread_id=5")})
	if err := ch.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	r := got()[0]
	if q := r.URL.Query(); q.Get("wait") != "true" || q.Get("thread_id") != "5" {
		t.Errorf("query is %s", r.URL.RawQuery)
	}
	var e embeds
	if err := json.Unmarshal([]byte(r.body), &e); err != nil || len(e.Embeds) != 1 || e.AllowedMentions.Parse == nil {
		t.Fatalf("body is %s: %v", r.body, err)
	}
	return e, r.body
}

func TestDiscord(t *testing.T) {
	e, body := discord(t, message(switched()))
	for _, want := range []string{
		`"title":"example.com: moved from relay to cloudflare"`, `"color":14692657`, `"timestamp":"2026-03-01T12:00:00Z"`,
		`{"name":"From","value":"relay","inline":true}`, `{"name":"To","value":"cloudflare","inline":true}`,
		`{"name":"Reason","value":"4 failed probes"}`, `{"name":"🔴 relay","value":"bad, preferred\n198.51.100.7, 2001:db8::7\nconnection refused","inline":true}`,
		`{"name":"🟢 cloudflare","value":"good, serving\n203.0.113.5","inline":true}`, `{"name":"⚪ mirror","value":"unknown\nnot probed","inline":true}`,
		`"allowed_mentions":{"parse":[]}`, `read back after 2 s`, `Incident example.com/7`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	colors := map[int]bool{e.Embeds[0].Color: true}
	for _, s := range []notify.Severity{notify.Info, notify.Warning, notify.Resolved} {
		ev := switched()
		ev.Severity = s
		e, _ := discord(t, message(ev))
		colors[e.Embeds[0].Color] = true
	}
	if len(colors) != 4 {
		t.Errorf("colors are %v", colors)
	}
	ev := switched()
	ev.Site, ev.Reason = "*.example.com", "@everyone <@1> `x` _y_ [a](b)"
	_, body = discord(t, message(ev))
	for _, want := range []string{`\\*.example.com`, "\\\\`x\\\\`", `\\_y\\_`, `\\[a](b)`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}

func units(s string) int { return len(utf16.Encode([]rune(s))) }

func TestDiscordLimits(t *testing.T) {
	for _, unit := range []string{"x", "*", "ä", "😀", "\\", "\n"} {
		long := strings.Repeat(unit, 5000)
		ev := switched()
		ev.Site, ev.From, ev.To, ev.Reason, ev.Detail, ev.Incident = long, long, long, long, long, long
		for i := range 30 {
			p := ev.Paths[i%3]
			p.Name, p.Detail = long, long
			ev.Paths = append(ev.Paths, p)
		}
		e, _ := discord(t, message(ev))
		m := e.Embeds[0]
		all := units(m.Title) + units(m.Description) + units(m.Footer.Text)
		for _, f := range m.Fields {
			all += units(f.Name) + units(f.Value)
			if units(f.Name) > 256 || units(f.Value) > 1024 || f.Name == "" || f.Value == "" {
				t.Errorf("%q: a field with %d and %d", unit, units(f.Name), units(f.Value))
			}
		}
		if units(m.Title) > 256 || units(m.Description) > 4096 || units(m.Footer.Text) > 2048 || len(m.Fields) > 25 || all > 6000 {
			t.Errorf("%q: title %d, description %d, footer %d, %d fields, %d in all", unit, units(m.Title), units(m.Description), units(m.Footer.Text), len(m.Fields), all)
		}
	}
}

func TestSlackForm(t *testing.T) {
	url, got := serve(t, nil)
	ev := switched()
	ev.Reason, ev.Detail = "<!channel> & co", strings.Repeat("x", 5000)
	for _, u := range []string{"discord+" + url + "/api/webhooks/1/T0ken/slack", "slack+" + url + "/T0ken"} {
		if err := channel(t, notify.Config{URL: hidden(u)}).Send(t.Context(), message(ev)); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range got() {
		var body struct{ Text string }
		if err := json.Unmarshal([]byte(r.body), &body); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(body.Text, "example.com: moved from relay to cloudflare\nTime: 2026-03-01 12:00:00 UTC\nReason: &lt;!channel&gt; &amp; co\n[-] relay: bad, preferred (198.51.100.7, 2001:db8::7): connection refused\n") || i == 0 && units(body.Text) > 2000 {
			t.Errorf("%s: %s", r.URL, body.Text)
		}
	}
	if got()[0].URL.Path != "/api/webhooks/1/T0ken/slack" {
		t.Errorf("path is %s", got()[0].URL.Path)
	}
}

func TestShoutrrr(t *testing.T) {
	url, got := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "{}") })
	host := strings.TrimPrefix(url, "http://")
	for i, u := range []string{"ntfy://" + host + "/topic?scheme=http&cache=no", "gotify://" + host + "/AAAAAAAAAAAAAAA?disabletls=yes", "generic+" + url} {
		ch := channel(t, notify.Config{URL: hidden(u)})
		for range 2 {
			ev := switched()
			ev.Detail = strings.Repeat("x", 10_000)
			if err := ch.Send(t.Context(), message(ev)); err != nil {
				t.Fatalf("%s: %v", u, err)
			}
		}
		for _, r := range got()[2*i:] {
			if !strings.Contains(r.body, "example.com: moved from relay to cloudflare") || len(r.body) > 4096 {
				t.Errorf("%s: %d bytes: %s", u, len(r.body), r.body)
			}
			if n := len(r.Header.Values("Cache")); n > 1 {
				t.Errorf("%s: header repeated %d times", u, n)
			}
		}
	}
}

// TestShoutrrrHangs: a service that does not come back costs one goroutine for each of
// a few messages, and Close waits for them.
func TestShoutrrrHangs(t *testing.T) {
	release := make(chan struct{})
	url, got := serve(t, func(http.ResponseWriter, *http.Request) { <-release })
	ch, err := notify.New(notify.Config{URL: hidden("generic+" + url), Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		err := ch.Send(t.Context(), message(switched()))
		if err == nil || strings.Contains(err.Error(), "still hang") != (i >= 3) {
			t.Errorf("message %d: %v", i, err)
		}
	}
	if n := len(got()); n > 3 {
		t.Errorf("%d requests", n)
	}
	close(release)
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := ch.Send(ctx, message(switched())); err == nil {
		t.Error("sent after ctx ended")
	}
	_ = ch.Close()
}
