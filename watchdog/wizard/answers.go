package wizard

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Answers is what the wizard has to know, but for the token. Empty ones are asked
// for, or have their default.
type Answers struct {
	// The domain of the site, like example.com.
	Domain string `json:"domain"`
	// The public IPv4 address of the relay.
	Relay string `json:"relay"`
	// The public IPv6 address of the relay. Default: it has none.
	Relay6 string `json:"relay6,omitempty"`
	// The public IPv4 address of the home.
	Home string `json:"home"`
	// The names whose records are moved. Default: the domain and all below it.
	Names []string `json:"names,omitempty"`
	// The name that the health check asks for. Default: edge-health.<domain>.
	HealthHost string `json:"health_host,omitempty"`
	// A proxied name that is always on the path through Cloudflare. Default: the
	// health host, or edge-canary.<domain> where the health host itself is moved.
	Canary string `json:"canary,omitempty"`
	// The id of the zone at Cloudflare, or its name. Default: looked up by the domain.
	Zone string `json:"zone,omitempty"`
	// Where the home's TLS server listens in the local network, like 192.168.1.10:443.
	// Default of the port: 443.
	Local string `json:"local"`
	// Where the watchdog keeps its state. Default: Caddy's data directory.
	StateDir string `json:"state_dir,omitempty"`
	// fast or careful. Default: what the watchdog has.
	Preset string `json:"preset,omitempty"`
	// The base URL of the API. Default: Cloudflare's own.
	API string `json:"api,omitempty"`
	// Permit writes. Default: a dry run.
	Apply bool `json:"apply,omitempty"`
}

// field is one answer as a text.
type field struct {
	name     string // of the flag
	required bool
	get      func(*Answers) string
	// set checks a text that is not empty, against the answers before it as well.
	set func(*Answers, string) error
	// fallback is what an empty text stands for.
	fallback func(Answers) string
}

// fields are in the order in which they are asked and checked.
var fields = []field{
	{name: "domain", required: true, get: func(a *Answers) string { return a.Domain }, set: (*Answers).setDomain},
	{name: "relay", required: true, get: func(a *Answers) string { return a.Relay }, set: (*Answers).setRelay},
	{name: "relay6", get: func(a *Answers) string { return a.Relay6 }, set: (*Answers).setRelay6},
	{name: "home", required: true, get: func(a *Answers) string { return a.Home }, set: (*Answers).setHome},
	{name: "name", get: func(a *Answers) string { return strings.Join(a.Names, " ") }, set: (*Answers).setNames, fallback: defaultNames},
	{name: "health-host", get: func(a *Answers) string { return a.HealthHost }, set: (*Answers).setHealthHost, fallback: defaultHealthHost},
	{name: "canary", get: func(a *Answers) string { return a.Canary }, set: (*Answers).setCanary, fallback: defaultCanary},
	{name: "zone", get: func(a *Answers) string { return a.Zone }, set: (*Answers).setZone},
	{name: "local", required: true, get: func(a *Answers) string { return a.Local }, set: (*Answers).setLocal},
	{name: "state-dir", get: func(a *Answers) string { return a.StateDir }, set: (*Answers).setStateDir},
	{name: "preset", get: func(a *Answers) string { return a.Preset }, set: (*Answers).setPreset},
	{name: "api", get: func(a *Answers) string { return a.API }, set: (*Answers).setAPI},
}

func defaultNames(a Answers) string {
	if a.Domain == "" {
		return ""
	}
	return a.Domain + " *." + a.Domain
}

func defaultHealthHost(a Answers) string { return below("edge-health", a.Domain) }

func defaultCanary(a Answers) string {
	if slices.Contains(a.Names, a.HealthHost) {
		return below("edge-canary", a.Domain)
	}
	return a.HealthHost
}

func below(label, domain string) string {
	if domain == "" {
		return ""
	}
	return label + "." + domain
}

func fieldNamed(name string) (field, bool) {
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

// With returns a with one answer set to a text, in its normal form. The field is
// named as its flag is, without the dashes. An empty text is refused if the answer
// has no default.
func (a Answers) With(name, text string) (Answers, error) {
	f, ok := fieldNamed(name)
	if !ok {
		return a, fmt.Errorf("there is no answer %q", name)
	}
	return a, f.put(&a, text)
}

func (f field) put(a *Answers, text string) error {
	text = strings.TrimSpace(text)
	if text == "" && f.fallback != nil {
		text = f.fallback(*a)
	}
	switch {
	case text == "" && f.required:
		return errors.New("it is missing")
	case text == "":
		return nil
	}
	return f.set(a, text)
}

// Missing lists the flags of answers that have no default and are not there.
func (a Answers) Missing() []string {
	var list []string
	for _, f := range fields {
		if f.required && strings.TrimSpace(f.get(&a)) == "" {
			list = append(list, "--"+f.name)
		}
	}
	return list
}

// Normalise returns the answers in their normal form and with their defaults. The
// error has all that is wrong, each under the name of its flag.
func (a Answers) Normalise() (Answers, error) { return a.normalise(false) }

// Given is Normalise for answers that are not complete yet: it checks those that are
// there, and leaves out the defaults.
func (a Answers) Given() (Answers, error) { return a.normalise(true) }

func (a Answers) normalise(partly bool) (Answers, error) {
	out := Answers{Apply: a.Apply}
	var errs []error
	for _, f := range fields {
		text := f.get(&a)
		if partly && strings.TrimSpace(text) == "" {
			continue
		}
		if err := f.put(&out, text); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", f.name, err))
		}
	}
	return out, errors.Join(errs...)
}

// Or returns a with what it lacks taken from b.
func (a Answers) Or(b Answers) Answers {
	if len(a.Names) == 0 {
		a.Names = b.Names
	}
	return Answers{
		Domain: cmp.Or(a.Domain, b.Domain), Relay: cmp.Or(a.Relay, b.Relay), Relay6: cmp.Or(a.Relay6, b.Relay6),
		Home: cmp.Or(a.Home, b.Home), Names: a.Names, HealthHost: cmp.Or(a.HealthHost, b.HealthHost),
		Canary: cmp.Or(a.Canary, b.Canary), Zone: cmp.Or(a.Zone, b.Zone), Local: cmp.Or(a.Local, b.Local),
		StateDir: cmp.Or(a.StateDir, b.StateDir), Preset: cmp.Or(a.Preset, b.Preset), API: cmp.Or(a.API, b.API),
		Apply: a.Apply || b.Apply,
	}
}

// Flags returns the answers as a command line would give them.
func (a Answers) Flags() string {
	var words []string
	for _, f := range fields {
		text := f.get(&a)
		if text == "" {
			continue
		}
		for _, value := range f.values(text) {
			words = append(words, "--"+f.name, shellQuoted(value))
		}
	}
	if a.Apply {
		words = append(words, "--apply")
	}
	return strings.Join(words, " ")
}

// values are several for a flag that may be repeated.
func (f field) values(text string) []string {
	if f.name == "name" {
		return strings.Fields(text)
	}
	return []string{text}
}

func shellQuoted(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune("-_./:", r) && !isAlphanumeric(r) }) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

func isAlphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
