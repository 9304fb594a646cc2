package wizard_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/edgeward/edgeward/internal/fakecloudflare"
	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/watchdog/cloudflare"
	"github.com/edgeward/edgeward/watchdog/wizard"
)

const token = "s3cr3t-Token_0123456789abcdefghijklmnop"

type record = fakecloudflare.Record

// onRelay is a site on the path through the relay, not adopted yet, with a canary.
func onRelay() []record {
	return []record{
		{Name: domain, Type: "A", Content: relayIP, TTL: 60},
		{Name: "*." + domain, Type: "A", Content: relayIP, TTL: 60},
		{Name: "edge-health." + domain, Type: "A", Content: homeIP, Proxied: true},
		{Name: domain, Type: "MX", Content: "mx.example.net"},
		{Name: domain, Type: "TXT", Content: "v=spf1 -all"},
	}
}

// provider starts a Cloudflare with those records, and checks at the end that nobody
// wrote to it.
func provider(t *testing.T, list []record) *fakecloudflare.Server {
	t.Helper()
	fake := fakecloudflare.New(t, fakecloudflare.Config{
		Token: token, Zones: []fakecloudflare.Zone{{Name: domain, Records: list}, {Name: "example.org"}}, Resolvers: -1,
	})
	before := fake.Dump()
	t.Cleanup(func() {
		n := fake.Count(fakecloudflare.CreateRecord, fakecloudflare.PatchRecord, fakecloudflare.PutRecord, fakecloudflare.DeleteRecord, fakecloudflare.Batch)
		if n != 0 || !bytes.Equal(before, fake.Dump()) {
			t.Errorf("there were %d writes", n)
		}
	})
	return fake
}

func client(t *testing.T, fake *fakecloudflare.Server, text string) *cloudflare.Client {
	t.Helper()
	c, err := cloudflare.New(cloudflare.Config{Token: secret.New(text), BaseURL: fake.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// modes lists what is in a directory, with the modes.
func modes(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		list = append(list, info.Mode().String()+" "+name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// private is a directory that nobody else can write to.
func private(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "edgeward")
}

func files(t *testing.T) wizard.Files { return wizard.Files{Dir: private(t)} }

func contains(list []string, part string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) })
}
