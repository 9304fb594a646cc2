package cluster

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// identity is who this machine is in the cluster. With it on disk, it is a member.
type identity struct {
	Name string `json:"name"`
	// Cluster tells clusters apart, so that members of two never mix.
	Cluster string `json:"cluster"`
	// Initial are the members at the first start, by name, with their URLs.
	Initial map[string]string `json:"initial"`
	// First: it made the cluster.
	First bool `json:"first,omitempty"`
	// Ready: it has run once, so that Initial means nothing any more.
	Ready bool `json:"ready,omitempty"`
	// Removed: the others have removed it.
	Removed bool `json:"removed,omitempty"`
}

// files is the directory of a member.
type files string

const (
	identityFile     = "member.json"
	authorityFile    = "authority.pem"
	authorityKeyFile = "authority.key"
	memberFile       = "member.pem"
	memberKeyFile    = "member.key"
	dataFolder       = "etcd"
	snapshotFolder   = "snapshots"
)

func (f files) path(name string) string { return filepath.Join(string(f), name) }

// identity returns nil if this machine is no member.
func (f files) identity() (*identity, error) {
	text, err := os.ReadFile(f.path(identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	id := new(identity)
	if err == nil {
		err = json.Unmarshal(text, id)
	}
	if err == nil && (id.Name == "" || id.Cluster == "") {
		err = errors.New("it holds no name and no cluster")
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.path(identityFile), err)
	}
	return id, nil
}

func (f files) setIdentity(id *identity) error {
	text, err := json.MarshalIndent(id, "", "\t")
	if err != nil {
		return err
	}
	return f.write(identityFile, append(text, '\n'))
}

// write replaces a file whole, and has it on disk when it returns.
func (f files) write(name string, content []byte) (err error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	t, err := os.CreateTemp(string(f), ".new-") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(t.Name())
		}
	}()
	_, err = t.Write(content)
	if err == nil {
		err = t.Sync()
	}
	err = errors.Join(err, t.Close())
	if err == nil {
		err = os.Rename(t.Name(), f.path(name))
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", f.path(name), err)
	}
	return syncDir(string(f))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// keep writes what makes this machine a member; who it is comes last, so that a crash
// leaves no half of one.
func (f files) keep(a *authority, cert []byte, key *ecdsa.PrivateKey, id *identity) error {
	authorityKey, err := encodeKey(a.key)
	if err != nil {
		return err
	}
	memberKey, err := encodeKey(key)
	if err != nil {
		return err
	}
	for _, file := range []struct {
		name    string
		content []byte
	}{
		{authorityFile, encode(pemCert, a.cert.Raw)},
		{authorityKeyFile, authorityKey},
		{memberFile, encode(pemCert, cert)},
		{memberKeyFile, memberKey},
	} {
		if err := f.write(file.name, file.content); err != nil {
			return err
		}
	}
	return f.setIdentity(id)
}

// clear sets aside what an earlier membership has left. Nothing is deleted.
func (f files) clear() error {
	if _, err := os.Stat(f.path(dataFolder)); err == nil {
		to := f.path(dataFolder + ".before-" + time.Now().UTC().Format("20060102T150405.000Z"))
		if err := os.Rename(f.path(dataFolder), to); err != nil {
			return fmt.Errorf("setting the data of before aside: %w", err)
		}
	}
	err := os.Remove(f.path(identityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f files) authority() (*authority, error) {
	cert, err := os.ReadFile(f.path(authorityFile))
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(f.path(authorityKeyFile))
	if err != nil {
		return nil, err
	}
	return parseAuthority(cert, key)
}

// renewCert makes a new certificate for this member when a third of its time is left.
// The one in use is read anew for each connection.
func (f files) renewCert(name string, now time.Time) (renewed bool, err error) {
	text, err := os.ReadFile(f.path(memberFile))
	if err != nil {
		return false, err
	}
	cert, err := parseCert(text)
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", f.path(memberFile), err)
	}
	if left := cert.NotAfter.Sub(now); left > cert.NotAfter.Sub(cert.NotBefore)/3 {
		return false, nil
	}
	a, err := f.authority()
	if err != nil {
		return false, err
	}
	der, err := a.issue(name, cert.PublicKey, now)
	if err != nil {
		return false, err
	}
	return true, f.write(memberFile, encode(pemCert, der))
}
