package ui

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/edgeward/edgeward/relay/api"
	"github.com/edgeward/edgeward/relay/event"
	"github.com/edgeward/edgeward/relay/fleet"
	wire "github.com/edgeward/edgeward/relay/link"
)

// pairing is how far an agent has come since a code was made for it.
type pairing struct {
	Gateway string
	Since   time.Time
	Paired  time.Time // zero: not yet
	Agent   *fleet.AgentStatus
	// Code and what comes with it are shown once.
	Code    string
	Expires time.Time
	URL     string
	Guessed bool // the URL may be another
}

// Connected tells whether the agent was heard of after it enrolled.
func (p pairing) Connected() bool {
	return !p.Paired.IsZero() && p.Agent != nil && p.Agent.State == "connected" && p.Agent.Last.After(p.Paired)
}

// Refresh is the page that shows the same without the code, for it changes.
func (p pairing) Refresh() string {
	return link("gateways", p.Gateway, "pairing") + "?since=" + strconv.FormatInt(p.Since.UnixMilli(), 10)
}

// Over tells that the code has expired.
func (p pairing) Over() bool {
	return p.Paired.IsZero() && time.Now().After(p.Since.Add(wire.CodeTTL))
}

func showPairing(v *visit) error {
	since, err := strconv.ParseInt(v.r.URL.Query().Get("since"), 10, 64)
	if err != nil {
		return v.redirect(link("gateways", v.name()))
	}
	p, err := v.progress(v.name(), time.UnixMilli(since))
	if err != nil {
		return err
	}
	return v.show("pairing", &screen{Title: "Pair the agent of " + p.Gateway, Nav: "gateways", Data: p})
}

// progress looks for what has happened since a code was made.
func (v *visit) progress(gateway string, since time.Time) (p pairing, err error) {
	g, err := get[api.Gateway](v, "/edge/gateways/"+url.PathEscape(gateway))
	if err != nil {
		return p, err
	}
	p = pairing{Gateway: g.Name, Since: since, Agent: g.Agent}
	list, err := get[[]event.Event](v, "/edge/events?limit=1&kind="+string(event.GatewayPaired)+"&gateway="+url.QueryEscape(g.Name))
	if err == nil && len(list) > 0 && !list[0].At.Before(since) {
		p.Paired = list[0].At
	}
	return p, err
}

// showCode shows a code that was just made.
func (v *visit) showCode(answer []byte) error {
	var code api.Code
	if err := json.Unmarshal(answer, &code); err != nil {
		return err
	}
	p, err := v.progress(v.name(), code.Expires.Add(-wire.CodeTTL).Truncate(time.Millisecond))
	if err != nil {
		return err
	}
	p.Code, p.Expires, p.URL = code.Code, code.Expires, v.ui.o.AgentURL
	if p.URL == "" {
		p.Guessed, p.URL = true, v.guess()
	}
	s := &screen{Title: "Pair the agent of " + p.Gateway, Nav: "gateways", Data: p, Refresh: p.Refresh()}
	return v.render(http.StatusOK, "pairing", s)
}

// guess is where agents may find the relay.
func (v *visit) guess() string {
	scheme := "https"
	host := cmp.Or(v.r.Host, "relay.example.com")
	if strings.ContainsAny(host, " '\"\\$`;&|<>()") { // it goes into a shell
		host = "relay.example.com"
	}
	return scheme + "://" + host + "/agent"
}

// showSecret shows a token that was just made.
func (v *visit) showSecret(answer []byte) error {
	var t api.GatewayToken
	if err := json.Unmarshal(answer, &t); err != nil {
		return err
	}
	return v.render(http.StatusOK, "secret", &screen{Title: "New token for " + t.Gateway, Nav: "gateways", Data: t})
}
