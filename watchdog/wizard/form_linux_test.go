package wizard_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/watchdog/wizard"
)

// session is a run in a terminal.
type session struct {
	*terminal
	out  bytes.Buffer // read it once the run has ended
	end  chan error
	o    wizard.Options
	form bool // not line by line
	stop context.CancelFunc
}

// start begins a run.
func start(t *testing.T, o wizard.Options) *session {
	t.Helper()
	s := &session{terminal: newTerminal(t), end: make(chan error, 1), o: o, form: !o.Accessible && os.Getenv("TERM") != "dumb"}
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() {
		s.end <- wizard.Run(ctx, o, wizard.Terminal{In: s.tty, Out: &s.out, Err: s.tty})
	}()
	return s
}

// wait returns how the run ended. The token must not have been seen, and the terminal
// must be as it was.
func (s *session) wait() error {
	s.t.Helper()
	select {
	case err := <-s.end:
		for _, text := range []string{s.plain(), s.out.String(), errorText(err)} {
			if strings.Contains(text, token) || strings.Contains(text, token[:8]) {
				s.t.Errorf("the token was shown:\n%s", text)
			}
		}
		if !s.echoes() {
			s.t.Error("the terminal is left without an echo")
		}
		return err
	case <-time.After(patience):
		s.t.Fatalf("the run does not end; it shows\n%s", s.plain())
		return nil
	}
}

// modesOfAsking are the two forms that ask the same.
func modesOfAsking(t *testing.T, f func(*testing.T, wizard.Options)) {
	for _, accessible := range []bool{false, true} {
		name := "form"
		if accessible {
			name = "line by line"
		}
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", "xterm")
			fake := provider(t, onRelay())
			f(t, wizard.Options{Answers: wizard.Answers{API: fake.URL()}, Files: files(t), Accessible: accessible})
		})
	}
}

// TestForm answers every question, and some of them wrongly first.
func TestForm(t *testing.T) {
	modesOfAsking(t, func(t *testing.T, o wizard.Options) {
		s := start(t, o)
		s.asks("Domain")
		s.enter("exa_mple.com")
		s.expect("a name alone")
		s.clear()
		s.enter("Example.com")
		s.asks("IPv4 address of the relay")
		s.enter("10.0.0.1")
		s.expect("private")
		s.clear()
		s.enter(relayIP)
		s.asks("IPv6 address of the relay")
		s.enter("")
		s.asks("IPv4 address of the home")
		s.enter(relayIP)
		s.expect("is the relay")
		s.clear()
		s.enter(homeIP)
		s.asks("Names to move")
		s.expect("example.com *.example.com") // the default
		s.enter("example.org")
		s.expect("not in the domain")
		if strings.Contains(s.plain(), "API token") {
			t.Error("the token was asked for before the names were good")
		}
		s.clear()
		s.enter("")
		s.asks("Host of the health check")
		s.enter("")
		s.asks("Canary")
		s.enter("")
		s.expect("will move the records of")
		s.expect("*.example.com")
		s.asks("Zone id")
		s.enter("")
		s.asks("API token")
		s.enter("two words")
		s.expect("malformed")
		s.clear()
		s.enter(token)
		s.asks("Local address")
		s.enter(homeIP)
		s.expect("not private")
		s.clear()
		s.enter("192.168.1.10")
		if err := s.wait(); err != nil {
			t.Fatal(err)
		}
		if config := read(t, o.Files.ConfigFile()); s.out.String() != config || !strings.Contains(config, "local 192.168.1.10:443") {
			t.Errorf("got\n%s", config)
		}
		if read(t, o.Files.TokenFile()) != token+"\n" {
			t.Error("the token is not in its file")
		}
	})
}

// asks waits until a question is the one that is asked.
func (s *session) asks(title string) {
	s.t.Helper()
	if s.form {
		title = "┃ " + title
	}
	s.expect(title)
}

// clear empties the field: the form leaves there what was refused.
func (s *session) clear() {
	if s.form {
		s.press("\x15") // ctrl+u
	}
}

// TestFormAsksOnlyWhatIsMissing: with all else given that is the token.
func TestFormAsksOnlyWhatIsMissing(t *testing.T) {
	modesOfAsking(t, func(t *testing.T, o wizard.Options) {
		api := o.Answers.API
		o.Answers = given()
		o.Answers.API = api
		s := start(t, o)
		s.expect("*.example.com")
		s.asks("API token")
		s.enter(token)
		if err := s.wait(); err != nil {
			t.Fatal(err)
		}
		if text := s.plain(); strings.Contains(text, "Domain") || strings.Contains(text, "Zone id") {
			t.Errorf("more was asked:\n%s", text)
		}
	})
}

func TestFormAborted(t *testing.T) {
	modesOfAsking(t, func(t *testing.T, o wizard.Options) {
		api := o.Answers.API
		o.Answers = given()
		o.Answers.API = api
		s := start(t, o)
		s.asks("API token")
		s.press(token + "\x03") // ctrl+c
		if err := s.wait(); !errors.Is(err, wizard.ErrAborted) {
			t.Errorf("error is %v", err)
		}
		nothing(t, o.Files)
	})
}

func TestFormStopped(t *testing.T) {
	for _, question := range []string{"Domain", "API token"} {
		modesOfAsking(t, func(t *testing.T, o wizard.Options) {
			if question == "API token" {
				api := o.Answers.API
				o.Answers = given()
				o.Answers.API = api
			}
			s := start(t, o)
			s.asks(question)
			s.stop()
			if err := s.wait(); !errors.Is(err, wizard.ErrAborted) || !errors.Is(err, context.Canceled) {
				t.Errorf("error is %v", err)
			}
			nothing(t, o.Files)
		})
	}
}

// TestFormEndOfInput: an empty answer is one that somebody gave.
func TestFormEndOfInput(t *testing.T) {
	t.Setenv("TERM", "dumb") // line by line without the flag
	s := start(t, wizard.Options{Files: files(t)})
	s.asks("Domain")
	s.enter(domain)
	s.asks("IPv4 address of the relay")
	s.press("\x04") // ctrl+d
	if err := s.wait(); !errors.Is(err, wizard.ErrAborted) {
		t.Errorf("error is %v", err)
	}
	nothing(t, s.o.Files)
}

// TestFormAsksForTheTokenAgain: who mistypes it keeps the other answers.
func TestFormAsksForTheTokenAgain(t *testing.T) {
	t.Setenv("TERM", "xterm")
	fake := provider(t, onRelay())
	o := wizard.Options{Answers: given(), Files: files(t), Accessible: true}
	o.Answers.API, o.Answers.Zone = fake.URL(), fake.ZoneID(domain)
	s := start(t, o)
	s.asks("API token")
	s.enter("wrong-token")
	s.expect("set token")
	s.asks("API token")
	s.enter(token)
	if err := s.wait(); err != nil {
		t.Fatal(err)
	}

	again := files(t)
	o.Files = again
	fake.SetToken(fakecloudflare.Token{Status: "active", NoDNSRead: true})
	s = start(t, o)
	s.asks("API token")
	s.enter(token)
	err := s.wait()
	if err == nil || !strings.Contains(err.Error(), "edge-watchdog init --domain example.com --relay "+relayIP) {
		t.Errorf("error is %v", err)
	}
	nothing(t, again)
}

// TestFormTypedAhead: what is typed before it is asked goes to the next question.
func TestFormTypedAhead(t *testing.T) {
	t.Setenv("TERM", "dumb")
	fake := provider(t, onRelay())
	o := wizard.Options{Answers: wizard.Answers{API: fake.URL()}, Files: files(t)}
	s := start(t, o)
	s.asks("Domain")
	s.press(strings.Join([]string{domain, relayIP, "", homeIP, "", "", "", ""}, "\r") + "\r")
	s.asks("API token")
	s.press(token + "\r" + "192.168.1.10:8443\r")
	s.asks("Local address")
	s.enter("") // what was typed while the terminal was without an echo has no proper end
	if err := s.wait(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.out.String(), "local 192.168.1.10:8443\n") {
		t.Errorf("got\n%s", s.out.String())
	}
}
