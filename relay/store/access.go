package store

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"zombiezen.com/go/sqlite"
)

// Hashes are SHA-256 of a secret that nobody can guess; the secret itself never
// comes here.

// AddCode keeps a pairing code for a gateway until it is used or expires. It
// returns ErrExists if that code is kept already.
func (s *Store) AddCode(ctx context.Context, hash [32]byte, gateway string, expires time.Time) error {
	return s.write(ctx, "adding a pairing code to", func(c *sqlite.Conn) error {
		end, err := nanoseconds(expires)
		if err != nil {
			return err
		}
		if err := run(c, "DELETE FROM pairing_code WHERE expires <= ?", time.Now().UnixNano()); err != nil {
			return err
		}
		return taken(run(c, "INSERT INTO pairing_code (hash, gateway, expires) VALUES (?, ?, ?)", hash[:], gateway, end))
	})
}

// TakeCode uses up a pairing code and returns the gateway that it is for. Of any
// number that try one code, one succeeds. It returns ErrNotFound for a code that
// is unknown, was used, or has expired at now.
func (s *Store) TakeCode(ctx context.Context, hash [32]byte, now time.Time) (gateway string, err error) {
	err = s.write(ctx, "taking a pairing code from", func(c *sqlite.Conn) error {
		at, err := nanoseconds(now)
		if err != nil {
			return err
		}
		const take = "DELETE FROM pairing_code WHERE hash = ? AND expires > ? RETURNING gateway"
		err = each(c, take, func(row *sqlite.Stmt) error { gateway = row.ColumnText(0); return nil }, hash[:], at)
		if err == nil && gateway == "" {
			err = ErrNotFound
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return gateway, nil
}

// SetGatewayToken makes hash the only token that a gateway has. It returns
// ErrExists if another gateway has that one.
func (s *Store) SetGatewayToken(ctx context.Context, gateway string, hash [32]byte) error {
	return s.write(ctx, "setting a token in", func(c *sqlite.Conn) error {
		const set = "INSERT INTO gateway_token (gateway, hash) VALUES (?, ?) ON CONFLICT (gateway) DO UPDATE SET hash = excluded.hash"
		return taken(run(c, set, gateway, hash[:]))
	})
}

// RevokeGatewayToken makes a gateway's token void. It returns ErrNotFound if the
// gateway has none.
func (s *Store) RevokeGatewayToken(ctx context.Context, gateway string) error {
	return s.deleteOne(ctx, "revoking a token in", "DELETE FROM gateway_token WHERE gateway = ?", gateway)
}

// GatewayTokens returns the hash of each gateway's token, by its name.
func (s *Store) GatewayTokens(ctx context.Context) (map[string][32]byte, error) {
	tokens := map[string][32]byte{}
	err := s.read(ctx, "reading tokens of", func(c *sqlite.Conn) error {
		return each(c, "SELECT gateway, hash FROM gateway_token", func(row *sqlite.Stmt) error {
			tokens[row.ColumnText(0)] = hashAt(row, 1)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return tokens, nil
}

// APIToken lets somebody use the admin API.
type APIToken struct {
	Name    string
	Hash    [32]byte
	Scope   string // read, write
	Created time.Time
	Expires time.Time // zero: never
}

// AddAPIToken keeps a token. It returns ErrExists if the name or the hash is taken.
func (s *Store) AddAPIToken(ctx context.Context, t APIToken) error {
	return s.write(ctx, "adding a token to", func(c *sqlite.Conn) error {
		created, err := nanoseconds(t.Created)
		if err != nil {
			return err
		}
		var expires any
		if !t.Expires.IsZero() {
			if expires, err = nanoseconds(t.Expires); err != nil {
				return err
			}
		}
		return taken(run(c, "INSERT INTO api_token (name, hash, scope, created, expires) VALUES (?, ?, ?, ?, ?)",
			t.Name, t.Hash[:], t.Scope, created, expires))
	})
}

// APITokens returns all tokens by name, also those that have expired.
func (s *Store) APITokens(ctx context.Context) ([]APIToken, error) {
	var list []APIToken
	err := s.read(ctx, "reading tokens of", func(c *sqlite.Conn) error {
		return each(c, "SELECT name, hash, scope, created, expires FROM api_token ORDER BY name", func(row *sqlite.Stmt) error {
			t := APIToken{Name: row.ColumnText(0), Hash: hashAt(row, 1), Scope: row.ColumnText(2), Created: moment(row.ColumnInt64(3))}
			if !row.ColumnIsNull(4) {
				t.Expires = moment(row.ColumnInt64(4))
			}
			list = append(list, t)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// DeleteAPIToken makes a token void. It returns ErrNotFound if there is none of
// that name.
func (s *Store) DeleteAPIToken(ctx context.Context, name string) error {
	return s.deleteOne(ctx, "deleting a token of", "DELETE FROM api_token WHERE name = ?", name)
}

// SetLAN keeps what an agent said of where it is in its network. An invalid address
// means that it is not known.
func (s *Store) SetLAN(ctx context.Context, gateway string, addr netip.Addr) error {
	return s.write(ctx, "keeping a LAN address in", func(c *sqlite.Conn) error {
		if !addr.IsValid() {
			return run(c, "DELETE FROM lan WHERE gateway = ?", gateway)
		}
		const set = "INSERT INTO lan (gateway, address) VALUES (?, ?) ON CONFLICT (gateway) DO UPDATE SET address = excluded.address"
		return run(c, set, gateway, addr.String())
	})
}

// LANs returns what each agent said last, by the name of its gateway.
func (s *Store) LANs(ctx context.Context) (map[string]netip.Addr, error) {
	lans := map[string]netip.Addr{}
	err := s.read(ctx, "reading LAN addresses of", func(c *sqlite.Conn) error {
		return each(c, "SELECT gateway, address FROM lan", func(row *sqlite.Stmt) error {
			addr, err := netip.ParseAddr(row.ColumnText(1))
			if err != nil {
				return fmt.Errorf("%w: %w", errUnreadable, err)
			}
			lans[row.ColumnText(0)] = addr
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return lans, nil
}

func (s *Store) deleteOne(ctx context.Context, doing, sql, name string) error {
	return s.write(ctx, doing, func(c *sqlite.Conn) error {
		err := run(c, sql, name)
		if err == nil && c.Changes() == 0 {
			err = ErrNotFound
		}
		return err
	})
}

// hashAt reads a hash; the schema makes sure of its length.
func hashAt(row *sqlite.Stmt, column int) (h [32]byte) {
	row.ColumnBytes(column, h[:])
	return h
}
