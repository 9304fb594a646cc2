package probe_test

import (
	"strings"
	"testing"

	"github.com/edgeward/edgeward/internal/evidence"
	"github.com/edgeward/edgeward/watchdog/probe"
)

const rayLine = "CF-Ray: 86610873f8d987a9-IAD\r\nServer: cloudflare\r\n"

func TestEdge(t *testing.T) {
	ca := newAuthority(t)
	config := ca.issue(t, nil)
	good := func(headers string) string { return page(200, "Cache-Control: no-store\r\n"+headers, marker) }
	failed := func(status int, body string) string { return page(status, rayLine, body) }
	html := func(code string) string {
		return `<!DOCTYPE html><h1><span class="cf-error-type" data-translate="error">Error</span>` + "\n" +
			`<span class="cf-error-code">` + code + `</span></h1>`
	}
	allowMiss := func(h *probe.HTTPS) { h.AllowMiss = true }
	for _, tc := range []struct {
		name   string
		answer string
		change func(*probe.HTTPS)
		want   probe.Reason
	}{
		{"dynamic", good(rayLine + "CF-Cache-Status: DYNAMIC\r\n"), nil, probe.OK},
		{"bypass", good(rayLine + "CF-Cache-Status: BYPASS\r\n"), nil, probe.OK},
		{"miss, allowed", good(rayLine + "CF-Cache-Status: MISS\r\n"), allowMiss, probe.OK},
		{"no edge is wanted", page(522, "Cache-Control: no-store\r\n", marker), func(h *probe.HTTPS) { h.Edge = false }, probe.WrongStatus},
		{"an error is wanted", page(403, rayLine+"Cache-Control: no-store\r\nCF-Cache-Status: DYNAMIC\r\n", marker), func(h *probe.HTTPS) { h.Status = 403 }, probe.OK},

		{"miss", good(rayLine + "CF-Cache-Status: MISS\r\n"), nil, probe.Cached},
		{"hit", good(rayLine + "CF-Cache-Status: HIT\r\n"), nil, probe.Cached},
		{"hit, miss is allowed", good(rayLine + "CF-Cache-Status: HIT\r\n"), allowMiss, probe.Cached},
		{"stale", good(rayLine + "CF-Cache-Status: STALE\r\n"), nil, probe.Cached},
		{"updating", good(rayLine + "CF-Cache-Status: UPDATING\r\n"), nil, probe.Cached},
		{"revalidated", good(rayLine + "CF-Cache-Status: REVALIDATED\r\n"), nil, probe.Cached},
		{"expired", good(rayLine + "CF-Cache-Status: EXPIRED\r\n"), nil, probe.Cached},
		{"none", good(rayLine + "CF-Cache-Status: NONE/UNKNOWN\r\n"), nil, probe.Cached},
		{"no cache status", good(rayLine), nil, probe.Cached},
		{"two cache statuses", good(rayLine + "CF-Cache-Status: DYNAMIC\r\nCF-Cache-Status: HIT\r\n"), nil, probe.Cached},
		{"dynamic, not no-store", page(200, rayLine+"CF-Cache-Status: DYNAMIC\r\n", marker), nil, probe.CacheControl},

		{"no ray", good("CF-Cache-Status: DYNAMIC\r\n"), nil, probe.NoRay},
		{"short ray", good("CF-Ray: 86610873f8d987a-IAD\r\nCF-Cache-Status: DYNAMIC\r\n"), nil, probe.NoRay},
		{"ray without a place", good("CF-Ray: 86610873f8d987a9\r\nCF-Cache-Status: DYNAMIC\r\n"), nil, probe.NoRay},
		{"ray in upper case", good("CF-Ray: 86610873F8D987A9-IAD\r\nCF-Cache-Status: DYNAMIC\r\n"), nil, probe.NoRay},
		{"two rays", good(rayLine + rayLine + "CF-Cache-Status: DYNAMIC\r\n"), nil, probe.NoRay},
		{"522 without a ray", page(522, "", ""), nil, probe.NoRay},

		{"520", failed(520, ""), nil, probe.EdgeOrigin},
		{"521", failed(521, ""), nil, probe.EdgeOrigin},
		{"522", failed(522, ""), nil, probe.EdgeOrigin},
		{"523", failed(523, ""), nil, probe.EdgeOrigin},
		{"524", failed(524, ""), nil, probe.EdgeOrigin},
		{"525", failed(525, ""), nil, probe.EdgeOrigin},
		{"526", failed(526, ""), nil, probe.EdgeOrigin},
		{"519", failed(519, ""), nil, probe.WrongStatus},
		{"527", failed(527, ""), nil, probe.WrongStatus},
		{"502", failed(502, "cloudflare"), nil, probe.WrongStatus},
		{"530 with 1033", failed(530, html("1033")), nil, probe.EdgeOrigin},

		{"1000", failed(403, html("1000")), nil, probe.EdgeDNS},
		{"1001", failed(409, "error code: 1001"), nil, probe.EdgeDNS},
		{"1014", failed(403, html("1014")), nil, probe.EdgeDNS},
		{"1016", failed(530, "error code: 1016"), nil, probe.EdgeDNS},
		{"1016 at another status", failed(409, "error code: 1016"), nil, probe.EdgeDNS},
		{"1016 in JSON", failed(530, `{"status": 530, "error_code": 1016}`), nil, probe.EdgeDNS},
		{"1018", failed(409, "<title>Error 1018 Ray ID: 86610873f8d987a9</title>"), nil, probe.EdgeDNS},
		{"530 without a code", failed(530, ""), nil, probe.EdgeDNS},
		{"530 with an unknown code", failed(530, "error code: 1999"), nil, probe.EdgeDNS},

		{"429", failed(429, "error code: 1015"), nil, probe.EdgeBlocked},
		{"429 without a ray", page(429, "", ""), nil, probe.EdgeBlocked},
		{"1015", failed(403, "error code: 1015"), nil, probe.EdgeBlocked},
		{"1020", failed(403, html("1020")), nil, probe.EdgeBlocked},
		{"challenge", page(403, rayLine+"Cf-Mitigated: challenge\r\n", ""), nil, probe.EdgeBlocked},
		{"challenge at 503", page(503, rayLine+"Cf-Mitigated: challenge\r\n", ""), nil, probe.EdgeBlocked},
		{"challenge by its page", failed(403, `<script>window._cf_chl_opt = {}</script>`), nil, probe.EdgeBlocked},
		{"block page", failed(403, `<div class="cf-error-details cf-error-1020">`), nil, probe.EdgeBlocked},

		{"403 of the origin", failed(403, "<h1>Forbidden</h1>"), nil, probe.WrongStatus},
		{"404 of the origin", failed(404, "terror 1016 times"), nil, probe.WrongStatus},
		{"a number that is no code", failed(403, "error: 10160 bytes, error 2016"), nil, probe.WrongStatus},
		{"a code far down", failed(403, strings.Repeat(" ", 33<<10)+"error code: 1016"), nil, probe.WrongStatus},
		{"302", page(302, rayLine+"Location: /login\r\n", ""), nil, probe.WrongStatus},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := usual(serve(t, overTLS(config, answer(tc.answer, nil))), ca)
			h.Edge, h.Header = true, nil
			if tc.change != nil {
				tc.change(&h)
			}
			r := h.Run(t.Context())
			if r.Reason != tc.want || r.Value != valueOf(tc.want) {
				t.Errorf("%s, %s, %q; want %s", r.Value, r.Reason, r.Detail, tc.want)
			}
		})
	}
}

func TestEdgeIsRecorded(t *testing.T) {
	ca := newAuthority(t)
	h := usual(serve(t, overTLS(ca.issue(t, nil), answer(page(200, "Cache-Control: no-store\r\n"+rayLine+"CF-Cache-Status: DYNAMIC\r\n", marker), nil))), ca)
	h.Edge = true
	if r := h.Run(t.Context()); r.Value != evidence.Good || r.Ray != "86610873f8d987a9-IAD" || r.CacheStatus != "DYNAMIC" {
		t.Errorf("%+v", r)
	}
}

// TestEdgeErrorPage: a page that never ends costs no more than the timeout, and
// what there is of it counts.
func TestEdgeErrorPage(t *testing.T) {
	ca := newAuthority(t)
	head := "HTTP/1.1 530 X\r\n" + rayLine + "Content-Length: 2000\r\n\r\nerror code: 1033 "
	h := usual(serve(t, overTLS(ca.issue(t, nil), drip(answer(head, nil), "x"))), ca)
	h.Edge, h.Timeout = true, short
	if r := h.Run(t.Context()); r.Reason != probe.EdgeOrigin || r.Took > short+slack {
		t.Errorf("%+v", r)
	}
}
