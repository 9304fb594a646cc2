package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

// guard stands before a member that is called directly. A member that ends takes away
// what calls are reading: new ones are refused from then on, and a call that is caught
// by it gets an error instead of ending the process.
type guard struct {
	log *slog.Logger

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
}

// close refuses new calls.
func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *guard) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.calls.Add(1)
	return true
}

// do calls f. Panics are those of etcd: anything else is none of ours.
func (g *guard) do(f func() error) (err error) {
	if !g.enter() {
		return ErrNotReady
	}
	defer g.calls.Done()
	defer func() {
		if p := recover(); p != nil {
			g.log.Error("the cluster's member has failed in a request", "panic", p)
			err = fmt.Errorf("%w: it failed in the request", ErrNotReady)
		}
	}()
	return f()
}

// ask is do with an answer.
func ask[T any](g *guard, f func() (T, error)) (answer T, err error) {
	err = g.do(func() (err error) {
		answer, err = f()
		return err
	})
	return answer, err
}

// guarded returns a client of the member s.
func guarded(s *etcdserver.EtcdServer, g *guard) *clientv3.Client {
	c := v3client.New(s)
	c.KV = guardedKV{c.KV, g}
	c.Lease = guardedLease{c.Lease, g}
	c.Cluster = guardedCluster{c.Cluster, g}
	return c
}

type guardedKV struct {
	clientv3.KV
	g *guard
}

func (k guardedKV) Put(ctx context.Context, key, val string, opts ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	return ask(k.g, func() (*clientv3.PutResponse, error) { return k.KV.Put(ctx, key, val, opts...) })
}

func (k guardedKV) Get(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return ask(k.g, func() (*clientv3.GetResponse, error) { return k.KV.Get(ctx, key, opts...) })
}

func (k guardedKV) Delete(ctx context.Context, key string, opts ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return ask(k.g, func() (*clientv3.DeleteResponse, error) { return k.KV.Delete(ctx, key, opts...) })
}

func (k guardedKV) Compact(ctx context.Context, rev int64, opts ...clientv3.CompactOption) (*clientv3.CompactResponse, error) {
	return ask(k.g, func() (*clientv3.CompactResponse, error) { return k.KV.Compact(ctx, rev, opts...) })
}

func (k guardedKV) Do(ctx context.Context, op clientv3.Op) (clientv3.OpResponse, error) {
	return ask(k.g, func() (clientv3.OpResponse, error) { return k.KV.Do(ctx, op) })
}

func (k guardedKV) Txn(ctx context.Context) clientv3.Txn { return guardedTxn{k.KV.Txn(ctx), k.g} }

type guardedTxn struct {
	clientv3.Txn
	g *guard
}

func (t guardedTxn) If(cs ...clientv3.Cmp) clientv3.Txn { return guardedTxn{t.Txn.If(cs...), t.g} }

func (t guardedTxn) Then(ops ...clientv3.Op) clientv3.Txn { return guardedTxn{t.Txn.Then(ops...), t.g} }

func (t guardedTxn) Else(ops ...clientv3.Op) clientv3.Txn { return guardedTxn{t.Txn.Else(ops...), t.g} }

func (t guardedTxn) Commit() (*clientv3.TxnResponse, error) { return ask(t.g, t.Txn.Commit) }

type guardedLease struct {
	clientv3.Lease
	g *guard
}

func (l guardedLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	return ask(l.g, func() (*clientv3.LeaseGrantResponse, error) { return l.Lease.Grant(ctx, ttl) })
}

func (l guardedLease) Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	return ask(l.g, func() (*clientv3.LeaseRevokeResponse, error) { return l.Lease.Revoke(ctx, id) })
}

func (l guardedLease) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	return ask(l.g, func() (*clientv3.LeaseKeepAliveResponse, error) { return l.Lease.KeepAliveOnce(ctx, id) })
}

type guardedCluster struct {
	clientv3.Cluster
	g *guard
}

func (c guardedCluster) MemberList(ctx context.Context, opts ...clientv3.OpOption) (*clientv3.MemberListResponse, error) {
	return ask(c.g, func() (*clientv3.MemberListResponse, error) { return c.Cluster.MemberList(ctx, opts...) })
}

func (c guardedCluster) MemberAddAsLearner(ctx context.Context, urls []string) (*clientv3.MemberAddResponse, error) {
	return ask(c.g, func() (*clientv3.MemberAddResponse, error) { return c.Cluster.MemberAddAsLearner(ctx, urls) })
}

func (c guardedCluster) MemberRemove(ctx context.Context, id uint64) (*clientv3.MemberRemoveResponse, error) {
	return ask(c.g, func() (*clientv3.MemberRemoveResponse, error) { return c.Cluster.MemberRemove(ctx, id) })
}

func (c guardedCluster) MemberUpdate(ctx context.Context, id uint64, urls []string) (*clientv3.MemberUpdateResponse, error) {
	return ask(c.g, func() (*clientv3.MemberUpdateResponse, error) { return c.Cluster.MemberUpdate(ctx, id, urls) })
}

func (c guardedCluster) MemberPromote(ctx context.Context, id uint64) (*clientv3.MemberPromoteResponse, error) {
	return ask(c.g, func() (*clientv3.MemberPromoteResponse, error) { return c.Cluster.MemberPromote(ctx, id) })
}
