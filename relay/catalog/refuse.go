package catalog

import (
	"fmt"
	"strings"

	"github.com/edgeward/edgeward/relay/event"
)

func invalid(code Code, field, format string, args ...any) *Error {
	return &Error{Class: Invalid, Code: code, Field: field, Detail: fmt.Sprintf(format, args...)}
}

func notFound(code Code, format string, args ...any) *Error {
	return &Error{Class: NotFound, Code: code, Detail: fmt.Sprintf(format, args...)}
}

func conflict(code Code, field, format string, args ...any) *Error {
	return &Error{Class: Conflict, Code: code, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// refuse is what an edit returns that changes nothing.
func refuse(e *Error) (*Catalog, []event.Event, error) { return nil, nil, e }

// in says in which part of a larger document the refusal is.
func (e *Error) in(field, object string) *Error {
	out := *e
	out.Field = strings.Trim(field+"."+e.Field, ".")
	out.Detail = object + ": " + e.Detail
	return &out
}

// maxNameBytes bounds the names of gateways, pools and routes.
const maxNameBytes = 63

// checkName refuses what cannot name something new; a route's name may hold a
// star, so that it can be called like its host.
func checkName(name string, star bool) *Error {
	if name == "" {
		return invalid(NameRequired, "name", "it needs a name")
	}
	for i := range len(name) {
		c := name[i]
		alone := 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || star && c == '*'
		if inside := c == '.' || c == '_' || c == '-'; !alone && (!inside || i == 0) {
			return invalid(NameInvalid, "name", "name %.80q: want a-z and 0-9, and inside . _ and - too", name)
		}
	}
	if len(name) > maxNameBytes {
		return invalid(NameInvalid, "name", "name %.80q is longer than %d bytes", name, maxNameBytes)
	}
	return nil
}

func nameTaken(what, name string, by Owner) *Error {
	if by == File {
		return conflict(NameTaken, "name", "%s %q is declared in the Caddyfile", what, name)
	}
	return conflict(NameTaken, "name", "there is a %s %q already", what, name)
}

func ownedByFile(what, name string) *Error {
	return conflict(OwnedByFile, "", "%s %q is declared in the Caddyfile: change it there", what, name)
}
