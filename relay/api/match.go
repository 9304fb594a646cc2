package api

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/edgeward/edgeward/relay/catalog"
)

// tag is the ETag of one thing: its revision, and what was said of it. If-Match
// goes by the revision alone, If-None-Match by both, because what is live around a
// thing changes more often than the thing.
func tag(revision uint64, body []byte) string {
	return `"` + strconv.FormatUint(revision, 10) + "-" + digest(body) + `"`
}

// listTag is the ETag of anything without a revision.
func listTag(body []byte) string { return `"` + digest(body) + `"` }

func digest(body []byte) string {
	sum := sha256.Sum256(body)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// tags splits the lists of entity tags in a header's values (RFC 9110, section
// 8.8.3). Ours hold no comma.
func tags(values []string) (list []string) {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if t = strings.TrimSpace(t); t != "" {
				list = append(list, t)
			}
		}
	}
	return list
}

// matchesAny compares weakly, as If-None-Match does (RFC 9110, section 13.1.2).
func matchesAny(values []string, etag string) bool {
	for _, t := range tags(values) {
		if t == "*" || strings.TrimPrefix(t, "W/") == etag {
			return true
		}
	}
	return false
}

// revisionOf reads the revision in a tag: `"7"` or `"7-abc"`. A weak one has none.
func revisionOf(t string) (uint64, bool) {
	inner, ok := strings.CutPrefix(t, `"`)
	inner, ok2 := strings.CutSuffix(inner, `"`)
	if !ok || !ok2 {
		return 0, false
	}
	digits, _, _ := strings.Cut(inner, "-")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// match holds a change to the revision that the client has seen. It is to be
// called inside the change, where nobody else can come between.
func (c *call) match(revision uint64) error {
	return c.matchTag(func(t string) bool {
		n, ok := revisionOf(t)
		return ok && n == revision
	}, strconv.FormatUint(revision, 10))
}

// matchTag is match for what has another kind of tag.
func (c *call) matchTag(same func(tag string) bool, now string) error {
	given := tags(c.r.Header.Values("If-Match"))
	if len(given) == 0 {
		if c.api.o.RequireMatch {
			return problem(http.StatusPreconditionRequired, preconditionNeeded, "want If-Match with the ETag of what was read")
		}
		return nil
	}
	for _, t := range given {
		if t == "*" || same(t) {
			return nil
		}
	}
	return problem(http.StatusPreconditionFailed, preconditionFailed, "it has changed since it was read: it is at revision %s now", now)
}

// seen holds a body that carries a revision to it, as If-Match would.
func seen(revision, now uint64) error {
	if revision == 0 || revision == now {
		return nil
	}
	return problem(http.StatusPreconditionFailed, preconditionFailed, "it has changed since it was read: revision %d was sent, %d is now", revision, now).at("revision")
}

// sameName holds a body to the name in the path.
func sameName(sent *string, path string) error {
	if *sent != "" && *sent != path {
		return problem(http.StatusBadRequest, catalog.NameFixed, "a name cannot be changed: want %q or none", path).at("name")
	}
	*sent = path
	return nil
}
