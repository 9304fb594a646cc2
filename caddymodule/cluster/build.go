package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/edgeward/edgeward/internal/cluster"
)

const defaultListen = ":7380"

// entry is one config, ready to be put in force.
type entry struct {
	log      *slog.Logger
	member   cluster.Config
	external *cluster.External // in place of a member
	// key is the same for configs that one member or client serves.
	key [sha256.Size]byte
}

// build checks the config and makes an entry of it.
func (a *App) build() (*entry, error) {
	x := *a
	if err := x.expand(); err != nil {
		return nil, err
	}
	e := &entry{log: a.log}
	var err error
	if len(x.Endpoints) > 0 {
		err = e.setExternal(&x)
	} else {
		err = e.setMember(&x)
	}
	if err != nil {
		return nil, err
	}
	e.key, err = x.key()
	return e, err
}

// expand replaces placeholders in every text.
func (a *App) expand() (err error) {
	one := func(name string, s *string) {
		text, bad := expand(*s)
		if bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", name, bad))
		}
		*s = text
	}
	for name, s := range map[string]*string{
		"name": &a.Name, "listen": &a.Listen, "advertise": &a.Advertise, "pair": &a.Pair, "data_dir": &a.DataDir,
		"ca": &a.CA, "cert": &a.Cert, "key": &a.Key, "user": &a.User, "password": &a.Password,
	} {
		one(name, s)
	}
	a.Endpoints = append([]string(nil), a.Endpoints...) // the config keeps its placeholders
	for i := range a.Endpoints {
		one("endpoints", &a.Endpoints[i])
	}
	return err
}

func (e *entry) setMember(x *App) error {
	for name, s := range map[string]string{"ca": x.CA, "cert": x.Cert, "key": x.Key, "user": x.User, "password": x.Password} {
		if s != "" {
			return fmt.Errorf("%s is for endpoints: this machine is a member, and members have certificates of their own", name)
		}
	}
	x.Listen = cmp.Or(x.Listen, defaultListen)
	x.DataDir = cmp.Or(x.DataDir, filepath.Join(caddy.AppDataDir(), "edge", "cluster"))
	e.member = cluster.Config{
		Name: x.Name, Dir: x.DataDir, Listen: x.Listen, Advertise: x.Advertise, Pair: x.Pair,
		Heartbeat: time.Duration(x.Heartbeat), Election: time.Duration(x.Election), Lead: x.Lead, Snapshots: x.Snapshots, Log: e.log,
	}
	_, err := cluster.New(e.member) // touches nothing
	return err
}

func (e *entry) setExternal(x *App) error {
	for name, s := range map[string]string{"name": x.Name, "listen": x.Listen, "advertise": x.Advertise, "pair": x.Pair, "data_dir": x.DataDir} {
		if s != "" {
			return fmt.Errorf("%s is for a member: with endpoints this machine is none", name)
		}
	}
	if x.Heartbeat != 0 || x.Election != 0 || x.Snapshots != 0 || x.Lead {
		return errors.New("heartbeat, election, lead and snapshots are for a member: with endpoints this machine is none")
	}
	e.external = &cluster.External{
		Endpoints: x.Endpoints, CA: x.CA, Cert: x.Cert, Key: x.Key, User: x.User, Password: x.Password, Log: e.log,
	}
	return e.external.Check()
}

// key tells apart what needs another member or client: also another certificate in the
// same file.
func (a *App) key() ([sha256.Size]byte, error) {
	files := map[string][]byte{}
	for _, name := range []string{a.CA, a.Cert, a.Key} {
		if name == "" {
			continue
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return [sha256.Size]byte{}, err
		}
		files[name] = content
	}
	text, err := json.Marshal([]any{a, files})
	return sha256.Sum256(text), err
}
