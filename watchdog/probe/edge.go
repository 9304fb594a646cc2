package probe

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
)

// maxErrorPage is how much of an error page of the edge is searched for its code.
const maxErrorPage = 32 << 10

var (
	// https://developers.cloudflare.com/fundamentals/reference/cloudflare-ray-id, and
	// the place of the data centre behind it.
	ray = regexp.MustCompile(`^[0-9a-f]{16}-[A-Z]{3}$`)
	// The forms the code has in pages, in plain text and in JSON:
	// https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-1xxx-errors
	code = regexp.MustCompile(`(?i)\berror(?:[ _-]?code)?(?:["':=>\s]|</?[a-z]+)*\s*(1\d{3})\b`)
	// What pages that challenge or block hold, when the header Cf-Mitigated does not
	// say it.
	blocking = regexp.MustCompile(`_cf_chl_opt|class="cf-error-details`)
)

// What the codes of the edge mean for a probe.
var (
	// Our records, or settings at the edge, point where it does not go. The path is
	// not to blame, and moving to another would hide that.
	codesDNS = []int{1000, 1001, 1002, 1003, 1004, 1014, 1016, 1018, 1034}
	// The edge keeps this client out, and not necessarily anybody else.
	codesBlocked = []int{1005, 1006, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1015, 1020, 1106}
	// The tunnel to the origin is down.
	codesOrigin = []int{1033}
)

// edge looks at an answer for what only the edge of Cloudflare says. Nil: it says
// what the origin does.
func (e *exchange) edge(resp *http.Response) *fault {
	status := resp.StatusCode
	switch {
	case status == http.StatusTooManyRequests:
		return &fault{EdgeBlocked, "status is 429: the edge, or the origin, limits the probe"}
	case !ray.MatchString(e.r.Ray):
		return &fault{NoRay, "CF-Ray is missing or malformed: the answer did not come through Cloudflare"}
	case status >= 520 && status <= 526:
		return &fault{EdgeOrigin, fmt.Sprintf("status is %d: %s", status, origin[status])}
	case status < 400, status == e.Status:
		return nil
	case resp.Header.Get("Cf-Mitigated") != "":
		return &fault{EdgeBlocked, fmt.Sprintf("status is %d: the edge challenges or blocks the probe", status)}
	}
	page, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorPage))
	if err != nil && e.budget.caller.Err() != nil {
		return e.budget.judge(err, "reading the error page", WrongStatus)
	}
	if f := ofCode(status, codeIn(page)); f != nil {
		return f
	}
	if status == http.StatusForbidden && blocking.Match(page) {
		return &fault{EdgeBlocked, "status is 403: the edge challenges or blocks the probe"}
	}
	return nil
}

// origin is what the edge says of the origin:
// https://developers.cloudflare.com/support/troubleshooting/http-status-codes/cloudflare-5xx-errors
var origin = map[int]string{
	520: "the origin's answer is empty or invalid",
	521: "the origin refuses connections",
	522: "the origin does not answer on TCP",
	523: "the origin is unreachable",
	524: "the origin gave no HTTP answer in time",
	525: "the TLS handshake with the origin failed",
	526: "the origin's certificate is not valid",
}

// ofCode is what an error page means. Status 530 always comes with a code; without
// one that is known, the edge refuses for a reason that is not the path's.
func ofCode(status, code int) *fault {
	what := fmt.Sprintf("status is %d, error %d", status, code)
	switch {
	case slices.Contains(codesOrigin, code):
		return &fault{EdgeOrigin, what + ": the tunnel to the origin is down"}
	case slices.Contains(codesBlocked, code):
		return &fault{EdgeBlocked, what + ": the edge blocks the probe"}
	case slices.Contains(codesDNS, code):
		return &fault{EdgeDNS, what + ": the edge does not accept our DNS records"}
	case status == 530:
		return &fault{EdgeDNS, what + ": the edge refuses to ask the origin"}
	}
	return nil
}

// codeIn finds the 1xxx code in an error page. Zero: there is none.
func codeIn(page []byte) int {
	m := code.FindSubmatch(page)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(string(m[1]))
	return n
}

// live reports whether the origin made the answer just now. HIT, STALE, UPDATING
// and REVALIDATED come out of the cache; EXPIRED and a status that is not there say
// that the page is one for the cache.
func (e *exchange) live() bool {
	switch e.r.CacheStatus {
	case "DYNAMIC", "BYPASS":
		return true
	case "MISS":
		return e.AllowMiss
	}
	return false
}
