// Package etcdstore is the lease.Store of several machines: an etcd cluster, embedded
// or one's own.
//
// A key has three entries under the prefix: holder/<key> says who holds it and is
// attached to an etcd lease, so that it goes when that ends; epoch/<key> keeps the last
// epoch for ever; value/<key> has the data. Every change is one transaction that
// compares what it goes by, and every answer is linearizable: without a majority there
// is none.
//
//	store := etcdstore.New(func() (*clientv3.Client, error) { return client, nil })
package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edgeward/edgeward/watchdog/lease"
)

// DefaultPrefix is where everything is kept in etcd.
const DefaultPrefix = "/edgeward/lease/"

// Store is a lease.Store. Use New.
type Store struct {
	client func() (*clientv3.Client, error)
	prefix string
}

// New returns a store. client gives the client of now, for each request: the member
// behind it may be another one after a change of the config.
func New(client func() (*clientv3.Client, error)) *Store {
	return &Store{client: client, prefix: DefaultPrefix}
}

func (s *Store) holder(key string) string { return s.prefix + "holder/" + key }
func (s *Store) epoch(key string) string  { return s.prefix + "epoch/" + key }
func (s *Store) value(key string) string  { return s.prefix + "value/" + key }

// held is what holder/<key> says.
type held struct {
	Holder string `json:"holder"`
	Epoch  uint64 `json:"epoch"`
}

// last is what epoch/<key> says.
type last struct {
	Epoch  uint64 `json:"epoch"`
	Holder string `json:"holder"`
	// Released: that one gave it back.
	Released bool `json:"released,omitempty"`
}

// longest bounds each request, also for who sets no deadline: without a majority etcd
// answers never.
const longest = 15 * time.Second

// acquireTries is how often others may be faster in one Acquire.
const acquireTries = 3

// errBusy says that others were faster each time.
var errBusy = errors.New("others change the lease at the same time: try again")

// Acquire implements lease.Store.
func (s *Store) Acquire(ctx context.Context, key, holder string, ttl time.Duration) (lease.Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	c, err := s.client()
	if err != nil {
		return lease.Grant{}, err
	}
	for range acquireTries {
		now, err := s.look(ctx, c, key)
		if err != nil {
			return lease.Grant{}, err
		}
		if now.held.Holder != "" && now.held.Holder != holder {
			return lease.Grant{}, &lease.HeldError{By: now.held.Holder}
		}
		if g, ok, err := s.take(ctx, c, now, key, holder, ttl); ok || err != nil {
			return g, err
		}
	}
	return lease.Grant{}, errBusy
}

// take takes the key if it is still as now says.
func (s *Store) take(ctx context.Context, c *clientv3.Client, now state, key, holder string, ttl time.Duration) (g lease.Grant, ok bool, err error) {
	// What is longer than asked for would be fine as well: etcd has a least TTL.
	l, err := c.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return g, false, fmt.Errorf("asking for a lease: %w", err)
	}
	g = lease.Grant{
		Key: key, Holder: holder, TTL: ttl, ID: int64(l.ID), Epoch: lease.NextEpoch(now.last.Epoch, time.Now()),
		Released: now.held.Holder == "" && (now.last.Released || now.last.Epoch == 0),
	}
	resp, err := c.Txn(ctx).If(
		clientv3.Compare(clientv3.ModRevision(s.holder(key)), "=", now.holderRev),
		clientv3.Compare(clientv3.ModRevision(s.epoch(key)), "=", now.epochRev),
	).Then(
		clientv3.OpPut(s.holder(key), text(held{holder, g.Epoch}), clientv3.WithLease(l.ID)),
		clientv3.OpPut(s.epoch(key), text(last{Epoch: g.Epoch, Holder: holder})),
	).Commit()
	switch {
	case err != nil:
		// Nobody knows whether it was taken. If it was, it ends with the lease, or
		// is taken anew by the same holder.
		return lease.Grant{}, false, fmt.Errorf("could not confirm the lease: %w", err)
	case !resp.Succeeded:
		_, err := c.Revoke(ctx, l.ID)
		return lease.Grant{}, false, err
	case now.lease != 0:
		// The grant of before has no key any more; its lease would end by itself.
		_, _ = c.Revoke(ctx, now.lease)
	}
	return g, true, nil
}

// errLeader says that a renewal may have been answered by a leader who was none.
var errLeader = errors.New("the cluster's leader has changed meanwhile")

// Renew implements lease.Store.
//
// A leader that was cut off goes on renewing leases for an election's time, while the
// next one has not heard of it. So the renewal counts only when a linearizable read
// after it, which needs a majority, finds the same term.
func (s *Store) Renew(ctx context.Context, g lease.Grant) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	c, err := s.client()
	if err != nil {
		return err
	}
	alive, err := c.KeepAliveOnce(ctx, clientv3.LeaseID(g.ID))
	if err != nil {
		return lost("renewing the lease", err)
	}
	now, err := s.look(ctx, c, g.Key)
	switch {
	case err != nil:
		return err
	case now.lease != clientv3.LeaseID(g.ID):
		return lease.ErrLost
	case alive.RaftTerm != now.term:
		return errLeader
	}
	return nil
}

// Release implements lease.Store.
func (s *Store) Release(ctx context.Context, g lease.Grant) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	c, err := s.client()
	if err != nil {
		return err
	}
	resp, err := c.Txn(ctx).If(s.own(g)...).Then(
		clientv3.OpDelete(s.holder(g.Key)),
		clientv3.OpPut(s.epoch(g.Key), text(last{Epoch: g.Epoch, Holder: g.Holder, Released: true})),
	).Commit()
	if err != nil {
		return fmt.Errorf("could not confirm the release: %w", err)
	}
	if _, err := c.Revoke(ctx, clientv3.LeaseID(g.ID)); err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) && resp.Succeeded {
		return nil // it ends by itself, and holds nothing
	}
	if !resp.Succeeded {
		return lease.ErrLost
	}
	return nil
}

// own compares that g is the grant of its key. What a lease of an etcd has is not
// found at a key that does not exist.
func (s *Store) own(g lease.Grant) []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.CreateRevision(s.holder(g.Key)), ">", 0),
		clientv3.Compare(clientv3.LeaseValue(s.holder(g.Key)), "=", clientv3.LeaseID(g.ID)),
	}
}

// Read implements lease.Store.
func (s *Store) Read(ctx context.Context, key string) (lease.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	c, err := s.client()
	if err != nil {
		return lease.Value{}, err
	}
	now, err := s.look(ctx, c, key)
	if err != nil {
		return lease.Value{}, err
	}
	v := lease.Value{Holder: now.held.Holder, Epoch: max(now.last.Epoch, now.held.Epoch)}
	if now.value != nil {
		v.Data, v.Rev = append([]byte{}, now.value.Value...), now.value.ModRevision
	}
	return v, nil
}

// Write implements lease.Store.
func (s *Store) Write(ctx context.Context, g lease.Grant, data []byte, rev int64) (int64, error) {
	if err := lease.CheckValue(data); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	c, err := s.client()
	if err != nil {
		return 0, err
	}
	same := clientv3.Compare(clientv3.ModRevision(s.value(g.Key)), "=", rev)
	resp, err := c.Txn(ctx).If(append(s.own(g), same)...).
		Then(clientv3.OpPut(s.value(g.Key), string(data))).
		Else(clientv3.OpGet(s.holder(g.Key))).Commit()
	if err != nil {
		return 0, fmt.Errorf("could not confirm the write of %s: %w", g.Key, err)
	}
	if resp.Succeeded {
		return resp.Header.Revision, nil
	}
	if kvs := resp.Responses[0].GetResponseRange().GetKvs(); len(kvs) == 1 && kvs[0].Lease == g.ID {
		return 0, lease.ErrChanged
	}
	return 0, lease.ErrLost
}

// state is what etcd has of a key.
type state struct {
	held      held
	holderRev int64
	lease     clientv3.LeaseID
	last      last
	epochRev  int64
	value     *mvccpb.KeyValue
	term      uint64
}

// look reads it all at once.
func (s *Store) look(ctx context.Context, c *clientv3.Client, key string) (now state, err error) {
	resp, err := c.Txn(ctx).Then(
		clientv3.OpGet(s.holder(key)), clientv3.OpGet(s.epoch(key)), clientv3.OpGet(s.value(key)),
	).Commit()
	if err != nil {
		return now, fmt.Errorf("reading the lease of %s: %w", key, err)
	}
	now.term = resp.Header.RaftTerm
	var kvs [3]*mvccpb.KeyValue
	for i, r := range resp.Responses {
		if list := r.GetResponseRange().GetKvs(); len(list) == 1 {
			kvs[i] = list[0]
		}
	}
	if kv := kvs[0]; kv != nil {
		now.holderRev, now.lease = kv.ModRevision, clientv3.LeaseID(kv.Lease)
		err = errors.Join(err, read(kv, &now.held))
		if err == nil && now.held.Holder == "" {
			err = fmt.Errorf("%s in etcd holds no name", kv.Key)
		}
	}
	if kv := kvs[1]; kv != nil {
		now.epochRev = kv.ModRevision
		err = errors.Join(err, read(kv, &now.last))
	}
	now.value = kvs[2]
	return now, err
}

// read refuses what it does not understand: to take a key for free that is not would
// be the one mistake.
func read(kv *mvccpb.KeyValue, v any) error {
	if err := json.Unmarshal(kv.Value, v); err != nil {
		return fmt.Errorf("%s in etcd is not what belongs there: %w", kv.Key, err)
	}
	return nil
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // structs of strings and numbers
	}
	return string(b)
}

// lost makes ErrLost of what etcd says of a lease that is over.
func lost(doing string, err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return lease.ErrLost
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// again is how long a watch waits before it is begun anew.
const again = time.Second

// Watch implements lease.Store.
func (s *Store) Watch(ctx context.Context, keys []string, changed func()) error {
	wanted := map[string]bool{}
	for _, key := range keys {
		wanted[s.holder(key)], wanted[s.value(key)] = true, true
	}
	changed()
	for {
		s.watch(ctx, wanted, changed)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(again):
		}
	}
}

// watch returns when etcd ends it.
func (s *Store) watch(ctx context.Context, wanted map[string]bool, changed func()) {
	c, err := s.client()
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range c.Watch(ctx, s.prefix, clientv3.WithPrefix(), clientv3.WithCreatedNotify()) {
		if resp.Err() != nil {
			return
		}
		if resp.Created {
			changed() // before it anything may have changed
		}
		for _, ev := range resp.Events {
			if name := string(ev.Kv.Key); wanted[name] && strings.HasPrefix(name, s.prefix) {
				changed()
				break
			}
		}
	}
}

// Interface guards.
var _ lease.Store = (*Store)(nil)
