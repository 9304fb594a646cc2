package origin_test

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/watchdog/origin"
	"github.com/edgeward/edgeward/watchdog/resolve"
)

const trace = "fl=1f1\nh=cloudflare.com\nip=%s\nts=1.2\nuag=ip=1\ncolo=FRA\n"

func traced(ip string) page { return text(strings.Replace(trace, "%s", ip, 1)) }

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// drip sends one byte at a time, so that no read times out by itself.
func drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = w.Write([]byte(" "))
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// Three sources of two operators; the third one varies.
func TestFind(t *testing.T) {
	ok := text("9.9.9.10\n")
	usual := []fake{{operator: "A", format: origin.Trace, v4: traced("9.9.9.10")}, {operator: "B", v4: ok}}
	third := func(p page) []fake { return append(usual[:2:2], fake{operator: "C", v4: p}) }
	second := func(f fake) []fake { return []fake{usual[0], f} }
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://ip1.example.com:1001/", http.StatusFound)
	}
	tests := map[string]struct {
		fakes []fake
		want  string // the address, or a part of why it is unknown
	}{
		"two agree":            {usual, "9.9.9.10"},
		"three agree":          {third(ok), "9.9.9.10"},
		"one disagrees":        {third(text("9.9.9.11")), "disagree: 9.9.9.10 by https://ip0.example.com:1000/path"},
		"one does not answer":  {third(status(500)), "9.9.9.10"},
		"one has no address":   {third(nil), "9.9.9.10"},
		"one says junk":        {third(text("<html>9.9.9.10</html>")), "9.9.9.10"},
		"one finds the relay":  {third(text("9.9.9.77")), "another path's address"},
		"one finds Cloudflare": {third(text("104.16.0.9")), "Cloudflare's"},
		"one finds private":    {third(text("192.168.1.1")), "private"},
		"one operator":         {second(fake{operator: " a ", v4: ok}), "only a answered"},
		"default operators":    {[]fake{{v4: ok}, {v4: ok}}, "only example.com answered"},
		"one alone":            {second(fake{operator: "B", v4: status(404)}), "only a answered"},
		"none":                 {[]fake{{operator: "A", v4: status(500)}, {operator: "B", v4: status(429)}}, "no source answered"},
		"redirect":             {second(fake{operator: "B", v4: redirect}), "only a answered"},
		"wrong certificate":    {second(fake{operator: "B", v4: ok, cert: "ip0.example.com"}), "only a answered"},
		"IPv6 over IPv4":       {second(fake{operator: "B", v4: text("2600::10")}), "only a answered"},
		"mapped":               {second(fake{operator: "B", v4: text("::ffff:9.9.9.10")}), "only a answered"},
		"two addresses":        {second(fake{operator: "B", v4: text("9.9.9.10\n9.9.9.10")}), "only a answered"},
		"empty":                {second(fake{operator: "B", v4: text("")}), "only a answered"},
		"port":                 {second(fake{operator: "B", v4: text("9.9.9.10:443")}), "only a answered"},
		"long but right":       {second(fake{operator: "B", v4: text("9.9.9.10" + strings.Repeat("\n", 4088))}), "9.9.9.10"},
		"too long":             {second(fake{operator: "B", v4: text("9.9.9.10" + strings.Repeat("\n", 4089))}), "only a answered"},
		"trace, two":           {second(fake{operator: "B", format: origin.Trace, v4: text("ip=9.9.9.10\nip=9.9.9.10\n")}), "only a answered"},
		"trace, none":          {second(fake{operator: "B", format: origin.Trace, v4: ok}), "only a answered"},
		"trace, CRLF":          {second(fake{operator: "B", format: origin.Trace, v4: text("a=b\r\nip=9.9.9.10\r\n")}), "9.9.9.10"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, test.fakes...)
			r.Families = []resolve.Family{resolve.IPv4}
			o := r.Look(t.Context())
			judge(t, o.V4, test.want)
			if len(o.V4.Said) != len(test.fakes) || o.V6.Reason != "not asked for" {
				t.Errorf("got %+v", o)
			}
		})
	}
}

func judge(t *testing.T, got origin.Reading, want string) {
	t.Helper()
	if addr, err := netip.ParseAddr(want); err == nil {
		if got.Addr != addr || got.Reason != "" {
			t.Errorf("got %+v, want %s", got, want)
		}
		return
	}
	if got.Addr.IsValid() || !strings.Contains(got.Reason, want) || len(got.By) > 0 {
		t.Errorf("got %+v, want none because %q", got, want)
	}
}

// Each family is its own: one may be there and the other not.
func TestFamilies(t *testing.T) {
	r := newRig(t,
		fake{operator: "A", v4: text("9.9.9.10"), v6: text("2600::10")},
		fake{operator: "B", v4: text("9.9.9.11"), v6: text("2600:0:0::10\n")})
	o := r.Look(t.Context())
	judge(t, o.V4, "disagree")
	judge(t, o.V6, "2600::10")
}

// A source that hangs, or that says a little for ever, ends with the round.
func TestBudget(t *testing.T) {
	for name, p := range map[string]page{"hang": hang, "drip": drip} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fake{operator: "A", v4: text("9.9.9.10"), v6: p}, fake{operator: "B", v4: text("9.9.9.10"), v6: p}, fake{operator: "C", v4: p, v6: p})
			r.Timeout = 3 * time.Second // for a machine that is busy: those who answer do so at once
			start := time.Now()
			o := r.Look(t.Context())
			if took := time.Since(start); took > 8*time.Second {
				t.Errorf("took %s", took)
			}
			judge(t, o.V4, "9.9.9.10")
			judge(t, o.V6, "no source answered")
		})
	}
}

// Without DNS nothing is known: the sources are never looked up in another way.
func TestNoResolver(t *testing.T) {
	r := newRig(t, fake{operator: "A", v4: text("9.9.9.10")}, fake{operator: "B", v4: text("9.9.9.10")})
	for _, resolver := range r.Resolvers.Resolvers {
		resolver.URL = "https://127.0.0.1/elsewhere"
	}
	o := r.Look(t.Context())
	judge(t, o.V4, "no source answered")
	for _, said := range o.V4.Said {
		if !strings.Contains(said.Err, "looking up") {
			t.Errorf("%+v", said)
		}
	}
}

// The interface counts as one source, for any of its public addresses.
func TestInterface(t *testing.T) {
	one := []fake{{operator: "A", v6: text("2600::10")}}
	two := append(one[:1:1], fake{operator: "B", v6: text("2600::10")})
	link := netip.MustParseAddr("fe80::1%eth0")
	local := netip.MustParseAddr("fd00::1")
	tests := map[string]struct {
		fakes []fake
		addrs []netip.Addr
		err   error
		want  string
	}{
		"confirms":         {one, []netip.Addr{link, local, home6}, nil, "2600::10"},
		"one of several":   {one, []netip.Addr{other6, home6}, nil, "2600::10"},
		"alone":            {[]fake{{operator: "A"}}, []netip.Addr{home6}, nil, "only interface eth0 answered"},
		"contradicts":      {two, []netip.Addr{other6}, nil, "disagree"},
		"has none":         {two, []netip.Addr{link, local}, nil, "2600::10"},
		"has none, of one": {one, []netip.Addr{link, local}, nil, "only a answered"},
		"is gone":          {two, nil, errors.New("no such interface"), "2600::10"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, test.fakes...)
			r.Interface = "eth0"
			r.Addrs = func(name string) ([]netip.Addr, error) {
				if name != "eth0" {
					t.Errorf("asked for %q", name)
				}
				return test.addrs, test.err
			}
			o := r.Look(t.Context())
			judge(t, o.V6, test.want)
			judge(t, o.V4, "no source answered")
		})
	}
}

// The system's own interface has no public address, and says so.
func TestLoopbackInterface(t *testing.T) {
	r := newRig(t, fake{operator: "A", v6: text("2600::10")})
	for name, want := range map[string]string{"lo": "no public IPv6 address", "no-such-interface": "no such"} {
		r.Interface = name
		o := r.Look(t.Context())
		if said := o.V6.Said[1]; !strings.Contains(said.Err, want) {
			t.Errorf("%s: %+v", name, said)
		}
	}
}

func TestValidate(t *testing.T) {
	if err := new(origin.Finder).Validate(); err != nil {
		t.Error("the default:", err)
	}
	source := func(url string) *origin.Finder {
		return &origin.Finder{Sources: []origin.Source{{URL: url}, {URL: "https://ip.example.net"}}}
	}
	tests := map[string]struct {
		finder *origin.Finder
		say    string
	}{
		"http":          {source("http://ip.example.com"), "want a URL"},
		"user":          {source("https://a@ip.example.com"), "want a URL"},
		"address":       {source("https://[2600::1]/"), "host name"},
		"one operator":  {source("https://other.example.net"), "operator"},
		"format":        {&origin.Finder{Sources: []origin.Source{{URL: "https://ip.example.com", Format: "xml"}, {URL: "https://ip.example.net"}}}, "format"},
		"good":          {source("https://ip.example.com"), ""},
		"one interface": {&origin.Finder{Sources: []origin.Source{{URL: "https://ip.example.com"}}, Interface: "eth0"}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.finder.Validate()
			if (err == nil) != (test.say == "") || err != nil && !strings.Contains(err.Error(), test.say) {
				t.Errorf("got %v, want %q", err, test.say)
			}
		})
	}
}

// The default sources can agree in either family.
func TestSources(t *testing.T) {
	for _, s := range origin.Sources() {
		if err := s.Validate(); err != nil || s.Operator == "" {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
