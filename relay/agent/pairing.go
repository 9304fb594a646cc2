package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/edgeward/edgeward/internal/secret"
	"github.com/edgeward/edgeward/relay/link"
)

// Pairing is a directory with what pairing has brought: the token, for its owner's
// eyes only, and the URL of the relay that it is for.
type Pairing struct{ Dir string }

// Names of the files in a Pairing's directory. The table is the agent's.
const (
	tokenFile = "token"
	relayFile = "relay"
	tableFile = "table.json"
)

// TableFile is where the agent keeps its last good table.
func (p Pairing) TableFile() string { return filepath.Join(p.Dir, tableFile) }

// TokenFile is where the token is.
func (p Pairing) TokenFile() string { return filepath.Join(p.Dir, tokenFile) }

// Token reads the token. The zero String and no error mean that the gateway is not
// paired.
func (p Pairing) Token() (secret.String, error) {
	s, _, err := secret.Read(p.TokenFile())
	if errors.Is(err, fs.ErrNotExist) {
		return secret.String{}, nil
	}
	return s, err
}

// Relay reads the URL of the relay; "" if the gateway is not paired.
func (p Pairing) Relay() (string, error) {
	data, err := os.ReadFile(filepath.Join(p.Dir, relayFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading where the relay is: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// Pair trades a code for a token, and keeps it. The client needs no token for that.
func (p Pairing) Pair(ctx context.Context, c *link.Client, code string) (gateway string, err error) {
	// The code is good for one try: find out before whether the token can be kept.
	if err := p.tryDisk(); err != nil {
		return "", err
	}
	a, err := c.Pair(ctx, code)
	if err != nil {
		return "", err
	}
	// At no time is there a token of one relay beside the URL of another.
	if err := os.Remove(p.TokenFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("forgetting the token before: %w", err)
	}
	if err := replaceFile(filepath.Join(p.Dir, relayFile), []byte(c.URL()+"\n")); err != nil {
		return "", fmt.Errorf("keeping where the relay is: %w", err)
	}
	return a.Gateway, p.keep(secret.New(a.Token))
}

// tryDisk finds out whether a token could be kept.
func (p Pairing) tryDisk() error {
	name := p.TokenFile() + ".test"
	err := replaceFile(name, []byte(strings.Repeat("x", secret.MaxBytes)))
	_ = os.Remove(name)
	if err != nil {
		return fmt.Errorf("keeping a token: %w", err)
	}
	return nil
}

func (p Pairing) keep(token secret.String) error {
	if err := replaceFile(p.TokenFile(), []byte(token.Reveal()+"\n")); err != nil {
		return fmt.Errorf("keeping the token: %w", err)
	}
	return nil
}

// Rotate trades the token for another one.
func (p Pairing) Rotate(ctx context.Context, c *link.Client) error {
	// The old token is void once the relay has answered.
	if err := p.tryDisk(); err != nil {
		return err
	}
	a, err := c.Rotate(ctx)
	if err != nil {
		return err
	}
	return p.keep(secret.New(a.Token))
}

// Remove forgets the token, the relay and the table.
func (p Pairing) Remove() error {
	var errs []error
	for _, name := range []string{tokenFile, relayFile, tableFile} {
		if err := os.Remove(filepath.Join(p.Dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("forgetting the pairing: %w", err))
		}
	}
	return errors.Join(errs...)
}
