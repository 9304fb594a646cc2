package wizard

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/edgeward/edgeward/internal/secret"
)

// question is what is asked for one answer. Without a field it is the token.
type question struct {
	page        int
	field       string
	title, help string
}

// secretPage is the first page behind the names.
const secretPage = 2

// questions in the order in which they are asked. The token comes after the names:
// who mistyped one has not shown it yet.
var questions = []question{
	{0, "domain", "Domain", "of the site, like example.com"},
	{0, "relay", "IPv4 address of the relay", "of the VPS that visitors reach"},
	{0, "relay6", "IPv6 address of the relay", "empty: it has none"},
	{0, "home", "IPv4 address of the home", "as the Internet sees it"},
	{1, "name", "Names to move", "apart by spaces"},
	{1, "health-host", "Host of the health check", "a name that the home has a certificate for"},
	{1, "canary", "Canary", "a proxied name, with the home's address, that never moves"},
	{secretPage, "zone", "Zone id", "empty: the zone is looked up by its name"},
	{secretPage, "", "API token", "with the permission Zone > DNS > Edit on this zone only; what you type stays hidden"},
	{secretPage + 1, "local", "Local address of the home's TLS server", "like 192.168.1.10, or with a port"},
}

// talk is one round of questions. Callbacks of the form come from several goroutines.
type talk struct {
	asked []question

	mu    sync.Mutex // guards what follows
	given Answers
	texts []string // one for each of asked
}

// newTalk asks for what is not given. With nothing but the token missing, only that
// is asked.
func newTalk(given Answers, token bool) *talk {
	t := &talk{given: given}
	complete := len(given.Missing()) == 0
	for _, q := range questions {
		f, isField := fieldNamed(q.field)
		if isField && f.get(&given) == "" && !complete || !isField && token {
			t.asked = append(t.asked, q)
		}
	}
	t.texts = make([]string, len(t.asked))
	return t
}

// check says what is wrong with an answer, in the light of the others.
func (t *talk) check(i int, text string) error {
	q := t.asked[i]
	if q.field == "" {
		text = strings.TrimSpace(text)
		if text == "" {
			return errors.New("it is missing")
		}
		return checkToken(secret.New(text))
	}
	_, err := t.sofar().With(q.field, text)
	return err
}

// sofar returns the answers as far as they are there and good, with their defaults.
func (t *talk) sofar() Answers {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out Answers
	for _, f := range fields {
		text := f.get(&t.given)
		if i := slices.IndexFunc(t.asked, func(q question) bool { return q.field == f.name }); i >= 0 {
			text = t.texts[i]
		}
		_ = f.put(&out, text)
	}
	return out
}

// preset is what an empty answer stands for.
func (t *talk) preset(i int) string {
	if f, ok := fieldNamed(t.asked[i].field); ok && f.fallback != nil {
		return f.fallback(t.sofar())
	}
	return ""
}

// put remembers an answer.
func (t *talk) put(i int, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.texts[i] = text
}

func (t *talk) text(i int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.texts[i]
}

// result is what has been said.
func (t *talk) result() (Answers, secret.String) {
	t.mu.Lock()
	defer t.mu.Unlock()
	out, token := t.given, secret.String{}
	for i, q := range t.asked {
		text := strings.TrimSpace(t.texts[i])
		f, ok := fieldNamed(q.field)
		switch {
		case !ok:
			token = secret.New(text)
		case text != "":
			_ = f.set(&out, text) // it has been checked, and is once more with the whole
		}
	}
	return out, token
}

// firstSecret is the question before which the names are shown; negative if none is
// asked that comes behind them.
func (t *talk) firstSecret() int {
	return slices.IndexFunc(t.asked, func(q question) bool { return q.page >= secretPage })
}

// summary is what will be moved, to be seen before anything secret is asked for.
func (t *talk) summary() string { return managed(t.sofar()) }

// managed says which names the watchdog will write.
func managed(a Answers) string {
	names := strings.Join(a.Names, "\n  ")
	if len(a.Names) > 10 {
		names = strings.Join(a.Names, ", ") // a screen has to hold it
	}
	return "The watchdog will move the records of\n  " + names + "\nand leave alone all others, and the canary " + a.Canary + "."
}
