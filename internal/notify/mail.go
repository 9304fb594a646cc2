package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"net/netip"
	"net/smtp"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	shoutmail "github.com/nicholas-fedor/shoutrrr/pkg/services/email/smtp"
)

// mail sends to a mail server. It takes shoutrrr's URLs; sending is done here,
// because shoutrrr waits for a silent server for ever.
type mail struct {
	name    string
	c       shoutmail.Config // holds secrets
	from    netmail.Address
	to      []netmail.Address
	timeout time.Duration
	log     *slog.Logger
}

func newMail(c Config, u *url.URL) (Channel, error) {
	m := &mail{name: c.name("smtp"), timeout: c.Timeout, log: c.Log}
	m.c = shoutmail.Config{
		Port: shoutmail.DefaultSMTPPort, Auth: shoutmail.AuthTypes.Unknown, UseStartTLS: true,
		Encryption: shoutmail.EncMethods.Auto, ClientHost: "localhost",
	}
	// The cause repeats the settings, and the password may be among them.
	if err := m.c.SetURL(u); err != nil || m.c.Host == "" {
		return nil, errors.New("the URL must be smtp://user:password@host:port/?from=address&to=address, and further settings those of shoutrrr")
	}
	m.c.FixEmailTags()
	from, err := netmail.ParseAddress(m.c.FromAddress)
	if err != nil {
		return nil, errors.New("from is not a mail address")
	}
	m.from = netmail.Address{Name: clip(m.c.FromName, maxName), Address: from.Address}
	for _, text := range m.c.ToAddresses {
		to, err := netmail.ParseAddress(text)
		if err != nil {
			return nil, errors.New("to is not a list of mail addresses, with commas between them")
		}
		m.to = append(m.to, netmail.Address{Address: to.Address})
	}
	if m.c.Auth == shoutmail.AuthTypes.Unknown {
		m.c.Auth = shoutmail.AuthTypes.None
		if m.c.Username != "" {
			m.c.Auth = shoutmail.AuthTypes.Plain
		}
	}
	return m, nil
}

// Name implements Channel.
func (m *mail) Name() string { return m.name }

// Close implements Channel. Connections end with Send.
func (m *mail) Close() error { return nil }

// Send implements Channel.
func (m *mail) Send(ctx context.Context, msg Message) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	conn, err := m.dial(ctx)
	if err != nil {
		return fmt.Errorf("connecting to the mail server: %s", plain(err))
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline) // fails on a closed connection only, as the next read will
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	return m.converse(conn, msg)
}

func (m *mail) dial(ctx context.Context) (net.Conn, error) {
	address := net.JoinHostPort(m.c.Host, strconv.Itoa(int(m.c.Port)))
	if m.implicit() {
		return (&tls.Dialer{Config: m.tls()}).DialContext(ctx, "tcp", address)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

func (m *mail) implicit() bool {
	auto := m.c.Encryption == shoutmail.EncMethods.Auto && m.c.Port == shoutmail.ImplicitTLSPort
	return auto || m.c.Encryption == shoutmail.EncMethods.ImplicitTLS
}

func (m *mail) tls() *tls.Config {
	return &tls.Config{ServerName: m.c.Host, MinVersion: tls.VersionTLS12, InsecureSkipVerify: m.c.SkipTLSVerify}
}

// converse has the whole dialogue of RFC 5321.
func (m *mail) converse(conn net.Conn, msg Message) error {
	c, err := smtp.NewClient(conn, m.c.Host)
	if err != nil {
		return refused("greeting", err)
	}
	if err := m.login(c); err != nil {
		return err
	}
	if err := c.Mail(m.from.Address); err != nil {
		return refused("naming the sender", err)
	}
	if err := m.recipients(c); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return refused("starting the message", err)
	}
	if _, err = w.Write(m.compose(msg)); err == nil {
		err = w.Close()
	}
	if err != nil {
		return refused("sending the message", err)
	}
	_ = c.Quit() // it has the message
	return nil
}

func (m *mail) login(c *smtp.Client) error {
	host := m.c.ClientHost
	if name, err := os.Hostname(); host == "auto" && err == nil {
		host = name
	}
	if err := c.Hello(host); err != nil {
		return refused("greeting", err)
	}
	if !m.implicit() && m.c.UseStartTLS && m.c.Encryption != shoutmail.EncMethods.None {
		offered, _ := c.Extension("STARTTLS")
		switch must := m.c.RequireStartTLS || m.c.Encryption == shoutmail.EncMethods.ExplicitTLS; {
		case offered:
			if err := c.StartTLS(m.tls()); err != nil {
				return refused("starting TLS", err)
			}
		case must:
			return &PermanentError{"the mail server does not offer STARTTLS", true}
		}
	}
	auth := m.auth()
	if auth == nil {
		return nil
	}
	if _, secure := c.TLSConnectionState(); !secure && m.c.Auth != shoutmail.AuthTypes.CRAMMD5 && !loopback(m.c.Host) {
		return &PermanentError{"there is no TLS to the mail server, so that no password is sent", true}
	}
	if err := c.Auth(auth); err != nil {
		return login(refused("logging in", err))
	}
	return nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// auth returns nil for none.
func (m *mail) auth() smtp.Auth {
	switch m.c.Auth {
	case shoutmail.AuthTypes.Plain:
		return smtp.PlainAuth("", m.c.Username, m.c.Password, m.c.Host)
	case shoutmail.AuthTypes.CRAMMD5:
		return smtp.CRAMMD5Auth(m.c.Username, m.c.Password)
	case shoutmail.AuthTypes.OAuth2:
		return shoutmail.OAuth2Auth(m.c.Username, m.c.Password)
	}
	return nil
}

// recipients is content with one that is taken.
func (m *mail) recipients(c *smtp.Client) error {
	var first error
	taken := 0
	for _, to := range m.to {
		err := c.Rcpt(to.Address)
		if err == nil {
			taken++
			continue
		}
		if first == nil {
			first = refused("naming a recipient", err)
		}
		m.log.Warn("the mail server refuses a recipient", "channel", m.name, "error", first)
	}
	if taken > 0 {
		return nil
	}
	return login(first)
}

// login marks a refusal as one of the settings.
func login(err error) error {
	if p, ok := errors.AsType[*PermanentError](err); ok {
		p.Channel = true
	}
	return err
}

// refused keeps of an answer its code: 5xx is for good (RFC 5321 section 4.2.1).
func refused(doing string, err error) error {
	te, ok := errors.AsType[*textproto.Error](err)
	switch {
	case !ok:
		return fmt.Errorf("%s: %s", doing, plain(err))
	case te.Code >= 500:
		return &PermanentError{Reason: fmt.Sprintf("%s: the mail server answers %d", doing, te.Code)}
	}
	return fmt.Errorf("%s: the mail server answers %d", doing, te.Code)
}

// compose writes the message, RFC 5322.
func (m *mail) compose(msg Message) []byte {
	var b bytes.Buffer
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	var to []string
	for _, a := range m.to {
		to = append(to, a.String())
	}
	_, domain, _ := strings.Cut(m.from.Address, "@")
	header("From", m.from.String())
	header("To", strings.Join(to, ", "))
	header("Subject", mime.QEncoding.Encode("utf-8", msg.Title()))
	header("Date", msg.Sent.Format(time.RFC1123Z))
	header("Message-ID", "<"+msg.ID+"@"+domain+">")
	header("Auto-Submitted", "auto-generated") // RFC 3834: no answer by a robot
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	q := quotedprintable.NewWriter(&b)
	_, _ = io.WriteString(q, msg.Title()+"\n\n"+msg.Text()+"\n") // into memory
	_ = q.Close()
	return b.Bytes()
}
