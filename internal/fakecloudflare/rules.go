package fakecloudflare

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/idna"
)

// The limits of the Free plan.
const (
	maxComment = 100
	maxBatch   = 200
	minTTL     = 60
	maxTTL     = 86400
)

var types = []string{"A", "AAAA", "CAA", "CNAME", "HTTPS", "MX", "NS", "PTR", "SRV", "SVCB", "TXT"}

// normalise makes a record what the API would store, or says why it would not.
func (s *Server) normalise(z *zone, r *Record) error {
	name, ok := z.fullName(r.Name)
	if !ok {
		return chained(9000, "DNS name is invalid.")
	}
	r.Name = name
	if !slices.Contains(types, r.Type) {
		return chained(9004, "Invalid DNS record type.")
	}
	if err := checkContent(r); err != nil {
		return err
	}
	if err := checkProxy(r); err != nil {
		return err
	}
	if r.TTL != 1 && (r.TTL < minTTL || r.TTL > maxTTL) {
		return chained(9021, fmt.Sprintf("Invalid TTL. Must be between %d and %d seconds, or 1 for automatic.", minTTL, maxTTL))
	}
	if r.Proxied {
		r.TTL = 1
	}
	if err := checkNotes(r); err != nil {
		return err
	}
	r.ModifiedOn = time.Now().UTC()
	if r.CreatedOn.IsZero() {
		r.CreatedOn = r.ModifiedOn
	}
	return nil
}

// fullName returns a name as the API shows it.
func (z *zone) fullName(name string) (string, bool) {
	name = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
	if name == "@" || name == "" {
		return z.Name, true
	}
	wild := strings.HasPrefix(name, "*.")
	ascii, err := idna.Punycode.ToASCII(strings.TrimPrefix(name, "*."))
	if name == "*" {
		ascii, err, wild = z.Name, nil, true
	}
	if err != nil || strings.Contains(ascii, "*") {
		return "", false
	}
	if ascii != z.Name && !strings.HasSuffix(ascii, "."+z.Name) {
		ascii += "." + z.Name
	}
	if wild {
		ascii = "*." + ascii
	}
	for label := range strings.SplitSeq(ascii, ".") {
		if label == "" || len(label) > 63 || strings.ContainsAny(label, " /\\\"\t\r\n") {
			return "", false
		}
	}
	return ascii, len(ascii) <= 253
}

func checkContent(r *Record) error {
	addr, err := netip.ParseAddr(r.Content)
	switch {
	case r.Type == "A" && (err != nil || !addr.Is4()):
		return chained(9005, "Content for A record must be a valid IPv4 address.")
	case r.Type == "AAAA" && (err != nil || !addr.Is6() || addr.Zone() != ""):
		return chained(9006, "Content for AAAA record must be a valid IPv6 address.")
	case r.Type == "A" || r.Type == "AAAA":
		r.Content = addr.String()
	case r.Type == "CNAME":
		r.Content = strings.TrimSuffix(strings.ToLower(r.Content), ".")
	}
	if r.Content == "" {
		return chained(9007, "Content for "+r.Type+" record is empty.")
	}
	return nil
}

func checkProxy(r *Record) error {
	r.Proxiable = r.Type == "CNAME"
	if addr, err := netip.ParseAddr(r.Content); err == nil && (r.Type == "A" || r.Type == "AAAA") {
		r.Proxiable = !addr.IsPrivate() && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() && !addr.IsMulticast() && !addr.IsUnspecified()
		if r.Proxied && !r.Proxiable {
			return &apiError{status: 400, code: 9003, message: "Target " + r.Content + " is not allowed for a proxied record."}
		}
	}
	if r.Proxied && !r.Proxiable {
		return chained(9004, "This record type cannot be proxied.")
	}
	return nil
}

func checkNotes(r *Record) error {
	if r.Comment != nil && *r.Comment == "" {
		r.Comment = nil
	}
	if r.Comment != nil && (len([]rune(*r.Comment)) > maxComment || strings.ContainsAny(*r.Comment, "\r\n")) {
		return chained(9301, fmt.Sprintf("DNS record comment is invalid: at most %d characters in one line.", maxComment))
	}
	if r.Tags == nil {
		r.Tags = []string{}
	}
	return nil
}

// clash says which other record of the name forbids this one.
func (z *zone) clash(r Record) error {
	for _, other := range z.byName[r.Name] {
		switch {
		case other.ID == r.ID:
		case r.Type == "CNAME" && (other.Type == "A" || other.Type == "AAAA" || other.Type == "CNAME"):
			return &apiError{status: 400, code: 81053, message: "An A, AAAA, or CNAME record with that host already exists."}
		case other.Type == "CNAME" && (r.Type == "A" || r.Type == "AAAA"):
			return &apiError{status: 400, code: 81054, message: "A CNAME record with that host already exists."}
		case other.Type == r.Type && other.Content == r.Content && other.Proxied == r.Proxied && other.TTL == r.TTL:
			return &apiError{status: 400, code: 81058, message: "An identical record already exists."}
		case other.Type == r.Type && other.Content == r.Content:
			return &apiError{status: 400, code: 81057, message: "Record already exists."}
		}
	}
	return nil
}
