package cloudflare

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cloudflare/cloudflare-go/v4/dns"
	"github.com/cloudflare/cloudflare-go/v4/zones"

	"github.com/edgeward/edgeward/watchdog/records"
)

// Zone is a zone as the API shows it.
type Zone struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	NameServers []string `json:"name_servers"`
}

var errZone = errors.New("the zone has no proper id or name")

func (z *Zone) check() error {
	z.Name = strings.ToLower(z.Name)
	if !isID(z.ID) || !isName(z.Name) {
		return errZone
	}
	return nil
}

// ZoneByName finds a zone that the token may see. The Error is of KindNotFound if
// there is none, and says so if the token has expired or is disabled.
func (c *Client) ZoneByName(ctx context.Context, name string) (Zone, error) {
	const op = "finding the zone"
	name, err := checkName(op, name)
	if err != nil {
		return Zone{}, err
	}
	var params zones.ZoneListParams
	params.Name.Value, params.Name.Present = name, true
	var list []Zone
	err = c.do(ctx, op, scope{zone: name, probing: true}, func(ctx context.Context) error {
		_, err := c.zones.List(ctx, params)
		return err
	}, func(reply envelope) error {
		if json.Unmarshal(reply.Result, &list) != nil {
			return errZone
		}
		for i := range list {
			if err := list[i].check(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return Zone{}, c.blame(ctx, op, err)
	}
	for _, z := range list {
		if z.Name == name {
			return z, nil
		}
	}
	return Zone{}, &Error{Kind: KindNotFound, Op: op, Detail: fmt.Sprintf("the token sees no zone %s: correct the name, give the token the permission Zone > Zone > Read, or configure the zone by its id", name)}
}

// blame says of a refusal what is wrong with the token, if that is known to be: the
// provider refuses a dead token in the same words as a wrong one.
func (c *Client) blame(ctx context.Context, op string, err error) error {
	refused, _ := errors.AsType[*Error](err)
	if !refused.denied() {
		return err
	}
	state, unknown := c.tokenState(ctx, op)
	if unknown != nil || state.Status == active {
		return err
	}
	dead := state.dead(op)
	dead.Until = refused.Until
	return dead
}

// Zone returns a zone by its id.
func (c *Client) Zone(ctx context.Context, id string) (Zone, error) {
	const op = "reading the zone"
	if err := checkID(op, id); err != nil {
		return Zone{}, err
	}
	var params zones.ZoneGetParams
	params.ZoneID.Value, params.ZoneID.Present = id, true
	var z Zone
	// A scope of its own: a token that may not see the zone may still read its records.
	err := c.do(ctx, op, scope{zone: "zone " + id}, func(ctx context.Context) error {
		_, err := c.zones.Get(ctx, params)
		return err
	}, func(reply envelope) error {
		if json.Unmarshal(reply.Result, &z) != nil || z.ID != id {
			return errors.New("the zone is not the one asked for")
		}
		return z.check()
	})
	if err != nil {
		return Zone{}, err
	}
	return z, nil
}

// TokenState is what the API says of the token.
type TokenState struct {
	// active, disabled or expired; unknown if the token may not ask about itself, as
	// those owned by an account may not.
	Status string
	// The zero time if it does not expire.
	Expires time.Time
}

// active is the state of a good token.
const active = "active"

// dead is the error of a token that is not active.
func (s TokenState) dead(op string) *Error {
	return &Error{Kind: KindAuth, Op: op, Detail: fmt.Sprintf("the token is %s: make a new one, and set token", s.Status)}
}

// Verify checks, without changing anything, that the token is good and may read the
// records of the zone. Whether it may write them only a write can tell. If it may
// not, the Error says what is wrong with the token.
func (c *Client) Verify(ctx context.Context, zoneID string) (TokenState, error) {
	const op = "checking the token"
	if err := checkID(op, zoneID); err != nil {
		return TokenState{}, err
	}
	state, err := c.tokenState(ctx, op)
	refused, _ := errors.AsType[*Error](err)
	if err != nil && !refused.denied() {
		return TokenState{}, err
	}
	if err == nil && state.Status != active {
		return state, state.dead(op)
	}
	anonymous := err != nil
	err = c.readOne(ctx, op, zoneID)
	if refused, _ := errors.AsType[*Error](err); refused.denied() {
		refused.Kind, refused.Detail = KindAuth, "the token is not valid, or belongs to an account and may not read this zone: set token, or give it the permission Zone > DNS > Edit"
		if !anonymous {
			refused.Kind, refused.Detail = KindForbidden, "the token is good, but may not read the records of this zone: give it the permission Zone > DNS > Edit, or correct the zone id"
		}
	}
	return state, err
}

// denied reports whether it is the token that was refused.
func (e *Error) denied() bool {
	return e != nil && (e.Kind == KindAuth || e.Kind == KindForbidden || e.Kind == KindNotFound)
}

// readOne asks for one record, to see whether that is allowed.
func (c *Client) readOne(ctx context.Context, op, zoneID string) error {
	var params dns.RecordListParams
	params.ZoneID.Value, params.ZoneID.Present = zoneID, true
	params.PerPage.Value, params.PerPage.Present = 1, true
	return c.do(ctx, op, scope{zone: zoneID}, func(ctx context.Context) error {
		_, err := c.records.List(ctx, params)
		return err
	}, func(reply envelope) error {
		_, err := decodeRecords(reply.Result)
		return err
	})
}

func (c *Client) tokenState(ctx context.Context, op string) (TokenState, error) {
	var said struct {
		Status  string    `json:"status"`
		Expires time.Time `json:"expires_on"`
	}
	err := c.do(ctx, op, self, func(ctx context.Context) error {
		_, err := c.tokens.Verify(ctx)
		return err
	}, func(reply envelope) error {
		if json.Unmarshal(reply.Result, &said) != nil {
			return errors.New("the state of the token is not readable")
		}
		switch said.Status {
		case active, "disabled", "expired":
			return nil
		}
		return errors.New("the state of the token is none that we know")
	})
	if err != nil {
		return TokenState{Status: "unknown"}, err
	}
	return TokenState{said.Status, said.Expires}, nil
}

// noRecord has the codes that say there is no such record.
var noRecord = []int{81044, 1002}

// MayWrite learns whether the token may change records, without changing one: it asks
// for a change of a record that is not there. Nil means that the provider has looked for
// the record; an Error of KindAuth or KindForbidden that it did not get as far. Any other
// error says nothing either way.
func (c *Client) MayWrite(ctx context.Context, zoneID string) error {
	const op = "asking whether the token may write"
	if err := checkID(op, zoneID); err != nil {
		return err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	params := batchParams(zoneID, records.Batch{Patches: []records.Patch{{
		Record: records.Record{ID: hex.EncodeToString(id[:]), Type: records.A}, Comment: records.Mark{}.String(),
	}}})
	on := scope{zone: zoneID, write: hex.EncodeToString(id[:]), probing: true}
	err := c.do(ctx, op, on, func(ctx context.Context) error {
		_, err := c.records.Batch(ctx, params)
		return err
	}, func(envelope) error { return errors.New("a change of a record that is not there was taken") })
	refused, ok := errors.AsType[*Error](err)
	if ok && slices.ContainsFunc(refused.Codes, func(code int) bool { return slices.Contains(noRecord, code) }) {
		return nil
	}
	return err
}
