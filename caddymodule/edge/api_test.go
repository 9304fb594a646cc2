package edge_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/relay/api"
)

const apiSecret = "the-secret-of-the-caddyfile"

// site serves edge_api at an address, beside something else.
func site(listen, at, options string) string {
	return global("gateway nuc {\n\tdial 127.0.0.1:1\n}\nlisten "+listen+" {\n\tunknown close\n}") +
		fmt.Sprintf("http://%s {\n\tedge_api {\n%s\n\t}\n\trespond \"something else\"\n}\n", at, options)
}

func fetch(t *testing.T, method, url, token string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

func TestAPIHandler(t *testing.T) {
	at := freePort(t)
	secretFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secretFile, []byte(apiSecret+"-in-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, site(freePort(t), at, "token ops "+apiSecret+" write\ntoken grafana {file."+secretFile+"} read"))
	base := "http://" + at
	cases := []struct {
		method, path, token string
		status              int
		says                string
	}{
		{"GET", "/edge/gateways", "", 401, "token_required"},
		{"GET", "/edge/gateways", "wrong", 401, "token_invalid"},
		{"GET", "/edge/gateways", apiSecret, 200, `"name":"nuc"`},
		{"GET", "/edge/gateways", apiSecret + "-in-a-file", 200, `"name":"nuc"`},
		{"POST", "/edge/gateways/nuc/drain", apiSecret + "-in-a-file", 403, "scope_insufficient"},
		{"POST", "/edge/gateways/nuc/drain", apiSecret, 200, `"operator":"drain"`},
		{"GET", "/edge/tokens", apiSecret, 200, `"owner":"file"`},
		{"GET", "/elsewhere", "", 200, "something else"},
		{"GET", "/edge", "", 200, "something else"},
		{"GET", "/edge/nothing", apiSecret, 404, "path_not_found"},
	}
	for _, c := range cases {
		status, _, body := fetch(t, c.method, base+c.path, c.token)
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, status, body, c.status, c.says)
		}
	}
	eventually(t, "the event says who did it", func() bool {
		_, body := ask(t, "GET", "/edge/events?kind=operator_state")
		return strings.Contains(body, `"actor":"token ops"`)
	})
	// A token made over one way in is good at the other, at once; and void at once.
	var made api.NewToken
	if err := json.Unmarshal([]byte(post(t, "/edge/tokens", `{"name":"ci","scope":"read"}`)), &made); err != nil {
		t.Fatal(err)
	}
	if status, _, body := fetch(t, "GET", base+"/edge/pools", made.Secret); status != 200 {
		t.Error(status, body)
	}
	if status, body := ask(t, "DELETE", "/edge/tokens/ci"); status != 204 {
		t.Error(status, body)
	}
	if status, _, body := fetch(t, "GET", base+"/edge/pools", made.Secret); status != 401 {
		t.Error(status, body)
	}
}

// post sends JSON to the admin API.
func post(t *testing.T, path, body string) string {
	t.Helper()
	resp, err := adminClient.Post("http://admin"+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatal(resp.StatusCode, string(answer), err)
	}
	return string(answer)
}

// TestPage: it is where it should be, and not where it is off.
func TestPage(t *testing.T) {
	for option, found := range map[string]bool{"": true, "ui on": true, "ui off": false} {
		at := freePort(t)
		start(t, site(freePort(t), at, "token ops "+apiSecret+" write\n"+option))
		status, head, body := fetch(t, "GET", "http://"+at+"/edge/ui/", "")
		if page := strings.HasPrefix(head.Get("Content-Type"), "text/html") || head.Get("Location") != ""; page != found {
			t.Errorf("%q: %d %v %.200s", option, status, head, body)
		}
		if strings.Contains(body, "nuc") {
			t.Errorf("%q: the page shows something to who is not logged in", option)
		}
	}
	if status, body := ask(t, "GET", "/edge/ui/"); status != 200 || !strings.Contains(body, "nuc") {
		t.Errorf("at the admin endpoint: %d %.200s", status, body)
	}
}

func TestAPIConfigErrors(t *testing.T) {
	cases := map[string]string{
		"token ops short write":                   "want at least 24",
		"token ops " + apiSecret + " admin":       "want read or write",
		"token ops " + apiSecret:                  "want token <name> <secret> read|write",
		"token a " + apiSecret + " read x":        "wrong argument count",
		"token ops {env.NO_SUCH_TOKEN_HERE} read": "NO_SUCH_TOKEN_HERE",
		"ui perhaps": "want on or off",
		"colour red": `"colour" is not known here`,
		strings.Repeat("token ops "+apiSecret+" read\n", 2): "two tokens ops",
	}
	for options, says := range cases {
		err := validate(site(freePort(t), freePort(t), options))
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(says)) || strings.Contains(err.Error(), apiSecret) {
			t.Errorf("%q: %v, want %q and no secret", options, err, says)
		}
	}
}
