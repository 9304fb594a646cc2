package cloudflare

import (
	"net/http"
	"regexp"
)

// meaning is what we know of a code.
type meaning struct {
	kind Kind
	text string
}

// meanings of the codes that a client of zones and records meets. They are
// documented nowhere as a list; these are from the reports of other clients.
var meanings = map[int]meaning{
	1000:  {KindAuth, "invalid API token"},
	1001:  {KindNotFound, "invalid zone id"},
	1002:  {KindNotFound, "invalid record id"},
	1004:  {KindInvalid, "DNS validation error"},
	6003:  {KindAuth, "invalid request headers"},
	6103:  {KindAuth, "invalid format of the X-Auth-Key header"},
	6111:  {KindAuth, "invalid format of the Authorization header: is the token complete?"},
	7000:  {KindNotFound, "no route for that URI"},
	7003:  {KindNotFound, "no such zone or record: is the zone id right?"},
	9000:  {KindInvalid, "invalid DNS name"},
	9003:  {KindInvalid, "the address is not allowed for a proxied record"},
	9004:  {KindInvalid, "the record cannot be proxied"},
	9005:  {KindInvalid, "the content is no IPv4 address"},
	9006:  {KindInvalid, "the content is no IPv6 address"},
	9021:  {KindInvalid, "the TTL must be 60 to 86400 seconds, or 1"},
	9041:  {KindInvalid, "the record cannot be proxied"},
	9106:  {KindAuth, "missing Authorization header"},
	9109:  {KindForbidden, "no access: the token is wrong, or is not for this zone"},
	9207:  {KindInvalid, "the request body is invalid"},
	9300:  {KindInvalid, "too many tags"},
	10000: {KindAuth, "authentication error"},
	10100: {KindRateLimited, "too many requests"},
	81044: {KindNotFound, "the record does not exist"},
	81053: {KindConflict, "an A, AAAA or CNAME record with that name exists"},
	81054: {KindConflict, "a CNAME record with that name exists"},
	81055: {KindConflict, "a record with that name exists"},
	81056: {KindConflict, "a record with that name exists"},
	81057: {KindConflict, "the record exists"},
	81058: {KindConflict, "an identical record exists"},
}

// permission finds the permission that a refusal asks for. Nothing else of the
// provider's text is ever shown.
var permission = regexp.MustCompile(`requires permission '((?:[a-z_]{1,30}\.){1,8}[a-z_]{1,30})'`)

// kindOf judges a refusal by its status, which is certain, and then by its codes.
func kindOf(status int, codes []int, asksPermission bool) Kind {
	switch {
	case status == http.StatusTooManyRequests:
		return KindRateLimited
	case status >= 500, status == http.StatusRequestTimeout:
		return KindServer
	case asksPermission:
		return KindForbidden
	}
	kind := Kind("")
	for _, code := range codes {
		// 10000 says of a good token, too, that it lacks a permission.
		if code == 10000 && status == http.StatusForbidden {
			return KindForbidden
		}
		if m := meanings[code].kind; m != "" && (kind == "" || kind == KindInvalid) {
			kind = m // in a chain the inner code says more
		}
	}
	switch {
	case kind != "":
		return kind
	case status == http.StatusUnauthorized:
		return KindAuth
	case status == http.StatusForbidden:
		return KindForbidden
	case status == http.StatusNotFound:
		return KindNotFound
	case status == http.StatusConflict:
		return KindConflict
	case status >= 400:
		return KindInvalid
	}
	return KindRefused
}
