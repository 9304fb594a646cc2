package catalog_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/edgeward/edgeward/relay/catalog"
)

// declared is a file that gets along with stored.
func declared() *catalog.Catalog {
	c := catalog.New()
	c.Gateways["fgw"] = gateway("fgw")
	c.Pools["fpool"] = poolOf("fpool", "fgw", "nuc")
	c.Routes["froute"] = catalog.Route{Hosts: []string{"FRoute.example."}, Pool: "fpool"}
	c.Listeners = []catalog.Listener{{Name: ":443", Managed: true, Port: 443}}
	return c
}

func stored(t *testing.T) *catalog.Catalog {
	t.Helper()
	c := must(t)(catalog.New().CreateGateway(gateway("nuc")))
	c = must(t)(c.CreatePool(poolOf("home", "nuc")))
	c = must(t)(c.CreateRoute(toPool("web", "home")))
	return must(t)(c.CreateRoute(port(toGateway("ssh", "nuc"), catalog.TCP, 22)))
}

func TestMerge(t *testing.T) {
	c, err := catalog.Merge(declared(), stored(t))
	if err != nil {
		t.Fatal(err)
	}
	if c.Gateways["fgw"].Owner != catalog.File || c.Gateways["nuc"].Owner != catalog.API || len(c.Pools) != 2 || len(c.Routes) != 3 {
		t.Errorf("merged to %+v", c)
	}
	c = must(t)(c.AddMember("home", members("fgw")[0], 0)) // the database may name what the file has
	again, err := catalog.Merge(declared(), c)             // a reload
	if diff := cmp.Diff(c, again); diff != "" || err != nil {
		t.Errorf("error %v, merged again:\n%s", err, diff)
	}
}

// TestMergeRefuses what cannot work together, and says where both are.
func TestMergeRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(file, api *catalog.Catalog)
		code   catalog.Code
		want   []string
	}{
		{"gateway", func(f, _ *catalog.Catalog) { f.Gateways["nuc"] = gateway("nuc") }, catalog.NameTaken, []string{`gateway "nuc"`, "Caddyfile", "database"}},
		{"pool", func(f, _ *catalog.Catalog) { f.Pools["home"] = poolOf("home", "fgw") }, catalog.NameTaken, []string{`pool "home"`, "Caddyfile", "database"}},
		{"route", func(f, _ *catalog.Catalog) { f.Routes["web"] = toPool("web", "fpool") }, catalog.NameTaken, []string{`route "web"`, "Caddyfile", "database"}},
		{"all at once", func(f, _ *catalog.Catalog) {
			f.Gateways["nuc"], f.Pools["home"] = gateway("nuc"), poolOf("home", "fgw")
		}, catalog.NameTaken, []string{`gateway "nuc"`, `pool "home"`}},
		{"host", func(f, _ *catalog.Catalog) {
			f.Routes["x"] = catalog.Route{Hosts: []string{"WEB.example"}, Listener: ":443", Pool: "fpool"}
		}, catalog.HostTaken, []string{"in the database", `route "web"`, "route x of the Caddyfile"}},
		{"port", func(f, _ *catalog.Catalog) {
			f.Listeners = append(f.Listeners, catalog.Listener{Name: ":22", Port: 22})
		}, catalog.PortTaken, []string{`route "ssh"`, "listener :22"}},
		{"port of a route", func(f, _ *catalog.Catalog) {
			f.Routes["x"] = catalog.Route{Kind: catalog.TCP, Port: 22, Pool: "fpool"}
		}, catalog.PortTaken, []string{`route "ssh"`, "route x of the Caddyfile"}},
		{"a gateway that went", func(_, a *catalog.Catalog) { delete(a.Gateways, "nuc") }, catalog.InvalidSetting, []string{"in the Caddyfile", `pool "fpool"`, "nuc"}},
		{"a member that went", func(f, a *catalog.Catalog) {
			a.Pools["home"] = poolOf("home", "nuc", "gone")
		}, catalog.GatewayNotFound, []string{"in the database", `pool "home"`, "gone"}},
		{"a pool that went", func(f, _ *catalog.Catalog) { f.Routes["x"] = toPool("x", "gone") }, catalog.TargetPoolNotFound, []string{`route "x"`, "gone"}},
		{"an empty pool", func(f, _ *catalog.Catalog) { f.Pools["x"] = poolOf("x") }, catalog.InvalidSetting, []string{`pool "x"`, "members"}},
		{"a derived name", func(f, _ *catalog.Catalog) { f.Pools["gateway:nuc"] = poolOf("x", "fgw") }, catalog.InvalidSetting, []string{`"gateway:nuc"`}},
		{"a name", func(f, _ *catalog.Catalog) { f.Gateways["NUC"] = gateway("x") }, catalog.NameInvalid, []string{`"NUC"`}},
		{"a setting", func(f, _ *catalog.Catalog) {
			p := poolOf("x", "fgw")
			p.Failback = "fridge"
			f.Pools["x"] = p
		}, catalog.InvalidSetting, []string{"fridge"}},
		{"a dial", func(f, _ *catalog.Catalog) { f.Gateways["x"] = catalog.Gateway{Dial: "x"} }, catalog.InvalidCheck, []string{"gateway x", "host:port"}},
		{"a target", func(f, _ *catalog.Catalog) { f.Routes["x"] = behind(toPool("x", "fpool"), "a b", 1) }, catalog.TargetHostInvalid, []string{`route "x"`}},
		{"a host", func(f, _ *catalog.Catalog) {
			f.Routes["x"] = catalog.Route{Hosts: []string{"a b"}, Pool: "fpool"}
		}, catalog.InvalidHost, []string{`route "x"`}},
		{"a broken database", func(_, a *catalog.Catalog) {
			a.Routes["web"] = catalog.Route{Name: "web", Pool: "home", Gateway: "nuc", Hosts: []string{"a"}}
		}, catalog.ConflictingTarget, []string{"in the database", `route "web"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file, api := declared(), stored(t)
			tc.change(file, api)
			c, err := catalog.Merge(file, api)
			bad, ok := errors.AsType[*catalog.Error](err)
			if c != nil || !ok || bad.Code != tc.code {
				t.Fatalf("merged to %v, error %v", c, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in: %v", want, err)
				}
			}
		})
	}
}

// TestMergeLeavesItsArguments alone.
func TestMergeLeavesItsArguments(t *testing.T) {
	file, api := declared(), stored(t)
	if _, err := catalog.Merge(file, api); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(declared(), file); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(stored(t), api); diff != "" {
		t.Error(diff)
	}
}

func TestRestore(t *testing.T) {
	c, err := catalog.Merge(declared(), stored(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c.Backup())
	if err != nil {
		t.Fatal(err)
	}
	var b catalog.Backup
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	if len(b.Gateways) != 1 || len(b.Pools) != 1 || len(b.Routes) != 2 || b.Version != 1 {
		t.Errorf("backup is %s", text)
	}
	same, did, err := c.Restore(b)
	expect(t, did, err)
	if same != c {
		t.Error("restored what was there already")
	}

	changed := must(t)(c.DeleteRoute("ssh"))
	changed = must(t)(changed.UpdateRoute(toGateway("web", "nuc")))
	changed = must(t)(changed.CreateGateway(gateway("other")))
	back, did, err := changed.Restore(b)
	expect(t, did, err, "backup_restored")
	if r := back.Routes["web"]; r.Revision != 3 || r.Pool != "home" || back.Routes["ssh"].Revision != 1 || back.Pools["home"].Revision != 1 {
		t.Errorf("restored to %+v", back.Routes)
	}
	if _, there := back.Gateways["other"]; there || back.Gateways["fgw"].Owner != catalog.File {
		t.Errorf("gateways are %+v", back.Gateways)
	}

	// All of it or nothing, with the place of what is wrong.
	b.Routes[0].Gateway = "gone"
	if bad := refused(t, catalog.TargetGatewayNotFound)(c.Restore(b)); bad.Field != "routes[0].gateway" || !strings.Contains(bad.Detail, `route "ssh"`) {
		t.Errorf("%s: %s", bad.Field, bad.Detail)
	}
	b.Routes[0] = b.Routes[1]
	refused(t, catalog.NameTaken)(c.Restore(b))
	b.Routes[0].Name = "copy"
	refused(t, catalog.HostTaken)(c.Restore(b))
	b.Routes = nil
	b.Gateways = append(b.Gateways, gateway("fgw"))
	refused(t, catalog.NameTaken)(c.Restore(b))
	refused(t, catalog.BackupInvalid)(c.Restore(catalog.Backup{Version: 2}))
}
