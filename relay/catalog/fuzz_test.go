package catalog_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/catalog"
	"github.com/edgeward/edgeward/relay/event"
)

// fuzzed lets an object that comes from anywhere into a catalog. What is taken
// works, and goes through JSON and a backup as it is.
func fuzzed(t *testing.T, c, next *catalog.Catalog, did []event.Event, err error) {
	t.Helper()
	if err != nil {
		if bad, ok := errors.AsType[*catalog.Error](err); !ok || bad.Code == "" || len(bad.Detail) > 2000 {
			t.Fatalf("refused with %v", err)
		}
		return
	}
	if len(did) == 0 || next == c {
		t.Fatal("nothing was done")
	}
	validate(t, next)
	for g := range next.Gateways {
		table := next.Table(g, nil)
		if table.Hash != hashOf(table.Routes) {
			t.Fatalf("table %+v", table)
		}
	}
	var b catalog.Backup
	if err := json.Unmarshal([]byte(text(next.Backup())), &b); err != nil {
		t.Fatal(err)
	}
	same, _, err := next.Restore(b)
	if err != nil || same != next {
		t.Fatalf("error %v, restored:\n%s", err, cmp.Diff(next, same))
	}
}

func FuzzGateway(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","dial":"192.0.2.1:443","proxy_protocol":"v2","http_port":80}`,
		`{"name":"a","dial":"[::1]:1","check":{"kind":"https","server_name":"a","status":["2xx"],"body":"ok","interval":"1s","stale":"off","fall":-1}}`,
		`{"name":"a","dial":"bücher.example.:443","check":{}}`,
		`{"name":"a","dial":"a:1","check":{"kind":"off","interval":"100ms"}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var g catalog.Gateway
		if json.Unmarshal([]byte(in), &g) != nil {
			return
		}
		c := home(t)
		next, did, err := c.CreateGateway(g)
		fuzzed(t, c, next, did, err)
	})
}

func FuzzPool(f *testing.F) {
	for _, seed := range []string{
		`{"name":"a","members":[{"gateway":"nuc","weight":3},{"gateway":"fgw"}],"policy":"least_conn","slow_start":"3s"}`,
		`{"name":"a","members":[{"gateway":"pi"}],"failback":"nas","hedge":"off","idle":"1h","outage":{"status":503,"body":"x","retry_after":"off"}}`,
		`{"name":"a","members":null,"on_down":"close","disabled":true}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var p catalog.Pool
		if json.Unmarshal([]byte(in), &p) != nil {
			return
		}
		c := home(t)
		next, did, err := c.CreatePool(p)
		fuzzed(t, c, next, did, err)
	})
}

func FuzzRoute(f *testing.F) {
	for _, seed := range []string{
		`{"name":"*.a.example","hosts":["*.a.example","A.example."],"pool":"home","target":{"host":"LOCALHOST","port":1}}`,
		`{"name":"a","kind":"udp","port":53,"gateway":"fgw","target":{"host":"[::1]","port":53,"proxy_protocol":"v2"}}`,
		`{"name":"a","kind":"http","hosts":["bücher.example"],"gateway":"nuc","target":{"host":"10.0.0.1","port":443,"tls":true,"insecure":true}}`,
		`{"name":"a","hosts":["*"],"listener":":8443","pool":"fpool","disabled":true}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var r catalog.Route
		if json.Unmarshal([]byte(in), &r) != nil {
			return
		}
		c := home(t)
		next, did, err := c.CreateRoute(r)
		fuzzed(t, c, next, did, err)
	})
}

func FuzzBackup(f *testing.F) {
	f.Add(`{"version":1,"gateways":[{"name":"a","dial":"a:1"}],"pools":[{"name":"b","members":[{"gateway":"a"}]}],"routes":[{"name":"c","hosts":["c"],"pool":"b"}]}`)
	f.Add(`{"version":1}`)
	f.Add(`{"version":1,"routes":[{"name":"c","kind":"tcp","port":1,"gateway":"fgw"},{"name":"d","kind":"tcp","port":1,"gateway":"fgw"}]}`)
	f.Fuzz(func(t *testing.T, in string) {
		var b catalog.Backup
		if json.Unmarshal([]byte(in), &b) != nil {
			return
		}
		c := home(t)
		next, did, err := c.Restore(b)
		fuzzed(t, c, next, did, err)
	})
}
