package notify_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/edgeward/edgeward/internal/notify"
)

// mailServer speaks as much SMTP as a client needs.
type mailServer struct {
	addr string
	// answers replaces the answer to a command, "" is silence.
	answers map[string]string

	mu    sync.Mutex
	lines []string
	mails []string
}

func newMailServer(t *testing.T, answers map[string]string) *mailServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &mailServer{addr: l.Addr().String(), answers: answers}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { defer c.Close(); s.talk(c) })
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return s
}

func (s *mailServer) talk(c net.Conn) {
	r := bufio.NewReader(c)
	if !s.answer(c, "greeting", "220 hello") {
		_, _ = r.ReadByte() // until the client gives up
		return
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		s.mu.Lock()
		s.lines = append(s.lines, line)
		s.mu.Unlock()
		verb, _, _ := strings.Cut(line, " ")
		standard := map[string]string{"EHLO": "250-host\r\n250 AUTH PLAIN CRAM-MD5", "AUTH": "235 welcome", "DATA": "354 go on", "QUIT": "221 bye"}
		known, ok := standard[verb]
		if !ok {
			known = "250 fine"
		}
		if !s.answer(c, line, known) {
			_, _ = r.ReadByte()
			return
		}
		if verb == "DATA" {
			s.take(r)
			s.answer(c, ".", "250 taken")
		}
	}
}

func (s *mailServer) take(r *bufio.Reader) {
	var text strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == ".\r\n" {
			break
		}
		text.WriteString(strings.TrimPrefix(line, "."))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mails = append(s.mails, text.String())
}

func (s *mailServer) answer(c net.Conn, line, known string) bool {
	for prefix, a := range s.answers {
		if strings.HasPrefix(line, prefix) {
			known = a
		}
	}
	if known != "" {
		fmt.Fprintf(c, "%s\r\n", known)
	}
	return known != ""
}

func TestMail(t *testing.T) {
	s := newMailServer(t, map[string]string{"RCPT TO:<gone": "550 no such hunter2"})
	ch := channel(t, notify.Config{URL: hidden("smtp://user:hunter2@" + s.addr + "/?from=edge@example.com&fromname=Edge+W%C3%A4rter&to=gone@example.com,b%2Bc@example.com")})
	m := message(switched())
	m.Detail = "ä\n.\n.dot\n" + strings.Repeat("x", 2000)
	m.Site = "exämple.com\r\nBcc: x@example.com"
	if err := ch.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if len(s.mails) != 1 {
		t.Fatalf("%d mails", len(s.mails))
	}
	got, err := netmail.ReadMessage(strings.NewReader(s.mails[0]))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Subject"))
	if err != nil || subject != "exämple.com Bcc: x@example.com: moved from relay to cloudflare" || got.Header.Get("Bcc") != "" {
		t.Errorf("subject is %q, %v, header %v", subject, err, got.Header)
	}
	from, err := got.Header.AddressList("From")
	to, err2 := got.Header.AddressList("To")
	if errors.Join(err, err2) != nil || from[0].Name != "Edge Wärter" || from[0].Address != "edge@example.com" || len(to) != 2 || to[1].Address != "b+c@example.com" {
		t.Errorf("from %v, to %v", from, to)
	}
	if got.Header.Get("Message-Id") != "<"+m.ID+"@example.com>" || got.Header.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("header is %v", got.Header)
	}
	body, err := io.ReadAll(quotedprintable.NewReader(got.Body))
	if text := strings.ReplaceAll(string(body), "\r\n", "\n"); err != nil || text != m.Title()+"\n\n"+m.Text()+"\n" {
		t.Errorf("body is %q, %v", text, err)
	}
}

func TestMailFails(t *testing.T) {
	for _, tc := range []struct {
		name               string
		answers            map[string]string
		query              string
		permanent, channel bool
		want               string
	}{
		{name: "silent", answers: map[string]string{"greeting": ""}, want: "timed out"},
		{name: "silent in the middle", answers: map[string]string{"DATA": ""}, want: "timed out"},
		{name: "silent at the end", answers: map[string]string{".": ""}, want: "timed out"},
		{name: "wrong password", answers: map[string]string{"AUTH": "535 hunter2 is wrong"}, permanent: true, channel: true, want: "answers 535"},
		{name: "busy", answers: map[string]string{"greeting": "421 hunter2 later"}, want: "answers 421"},
		{name: "no recipient", answers: map[string]string{"RCPT": "550 hunter2"}, permanent: true, channel: true, want: "answers 550"},
		{name: "greylisted", answers: map[string]string{"RCPT": "451 hunter2"}, want: "answers 451"},
		{name: "refused", answers: map[string]string{".": "554 hunter2"}, permanent: true, want: "answers 554"},
		{name: "no TLS", query: "&requirestarttls=yes", permanent: true, channel: true, want: "STARTTLS"},
		{name: "not TLS", query: "&encryption=ImplicitTLS", want: "connecting"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newMailServer(t, tc.answers)
			ch := channel(t, notify.Config{Timeout: 300 * time.Millisecond, URL: hidden("smtp://user:hunter2@" + s.addr + "/?from=a@example.com&to=b@example.com" + tc.query)})
			err := ch.Send(t.Context(), message(switched()))
			if err == nil || !strings.Contains(err.Error(), tc.want) || leaks(err.Error()) {
				t.Fatalf("error is %v, want %q in it", err, tc.want)
			}
			pe, permanent := errors.AsType[*notify.PermanentError](err)
			if permanent != tc.permanent || permanent && pe.Channel != tc.channel {
				t.Errorf("error is %#v", err)
			}
		})
	}
}
