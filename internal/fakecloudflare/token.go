package fakecloudflare

import (
	"strings"
	"time"
)

// Token is what the API makes of a token.
type Token struct {
	// active, disabled or expired.
	Status  string
	Expires time.Time
	// The permissions it lacks.
	NoZoneRead, NoDNSRead, NoDNSEdit bool
	// Owned by an account and not by a user: it cannot be verified at
	// /user/tokens/verify.
	Account bool
}

// SetToken changes what the API makes of Config.Token.
func (s *Server) SetToken(t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[s.cfg.Token] = t
}

// SetTokenOf changes what the API makes of the token of a zone. An unknown zone is the
// caller's mistake and panics.
func (s *Server) SetTokenOf(zoneName string, t Token) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens[s.tokenOf(s.mustZone(zoneName))] = t
}

// tokenOf is the token that is for a zone.
func (s *Server) tokenOf(z *zone) string {
	if z.Token != "" {
		return z.Token
	}
	return s.cfg.Token
}

// authorise checks the token of a request, and its permissions. What is for another
// zone is refused when that zone is looked for.
func (s *Server) authorise(req Request, header string) error {
	_, bearer := strings.CutPrefix(header, "Bearer ")
	t, known := s.tokens[req.token]
	denied := &apiError{status: 403, code: 10000, message: "Authentication error"}
	switch call := req.Call; {
	case header == "":
		return &apiError{status: 400, code: 9106, message: "Missing X-Auth-Key, X-Auth-Email or Authorization headers"}
	case !bearer || req.token == "" || strings.ContainsAny(req.token, " \t"):
		return &apiError{
			status: 400, code: 6003, message: "Invalid request headers",
			chain: []apiError{{code: 6111, message: "Invalid format for Authorization header"}},
		}
	case call == VerifyToken && (!known || t.Account):
		return &apiError{status: 401, code: 1000, message: "Invalid API Token"}
	case !known:
		return &apiError{status: 403, code: 9109, message: "Invalid access token"}
	case call == VerifyToken:
		return nil
	case t.Status != "active":
		return &apiError{status: 401, code: 10000, message: "Authentication error"}
	case call == ListZones && t.NoZoneRead:
		return &apiError{status: 403, code: 0, message: "Actor 'com.cloudflare.api.token." + digest("token") + "' requires permission 'com.cloudflare.api.account.zone.list' to list zones"}
	case call == GetZone && t.NoZoneRead, call == ListRecords && t.NoDNSRead, call == GetRecord && t.NoDNSRead, call.Writes() && t.NoDNSEdit:
		return denied
	}
	return nil
}

// verified is the answer to a token that asks about itself.
func (s *Server) verified(token string) map[string]any {
	t := s.tokens[token]
	m := map[string]any{"id": digest("token"), "status": t.Status}
	if !t.Expires.IsZero() {
		m["expires_on"] = t.Expires.UTC().Format(time.RFC3339)
	}
	return m
}
