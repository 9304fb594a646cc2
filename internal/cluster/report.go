package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/version"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// report is what a member says of itself, every reportEvery, in the cluster itself: so
// it says as well that the member is part of the majority. It goes with an etcd lease.
type report struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Applied uint64    `json:"applied"`
	Size    int64     `json:"size"`
	InUse   int64     `json:"in_use"`
	Copy    time.Time `json:"copy,omitzero"` // of the data, the last one
	At      time.Time `json:"at"`            // by its own clock
	Lead    bool      `json:"lead,omitempty"`
	rev     int64     // when it said so
}

const (
	reportPrefix = "/edgeward/cluster/report/"
	reportEvery  = 20 * time.Second
	reportTTL    = 60 * time.Second
)

func reportKey(id uint64) string { return reportPrefix + idText(id) }

// reports returns what members say whose time is not over, by id.
func reports(ctx context.Context, c *clientv3.Client, opts ...clientv3.OpOption) (map[uint64]report, error) {
	resp, err := c.Get(ctx, reportPrefix, append(opts, clientv3.WithPrefix())...)
	if err != nil {
		return nil, fmt.Errorf("reading how the members do: %w", err)
	}
	all := map[uint64]report{}
	for _, kv := range resp.Kvs {
		id, err := strconv.ParseUint(strings.TrimPrefix(string(kv.Key), reportPrefix), 16, 64)
		var r report
		if err == nil && json.Unmarshal(kv.Value, &r) == nil {
			r.rev = kv.ModRevision
			all[id] = r
		}
	}
	return all, nil
}

// reporter keeps the lease of a member's report.
type reporter struct{ lease clientv3.LeaseID }

func (p *reporter) put(ctx context.Context, n *Node, r *running) error {
	if p.lease != 0 {
		if _, err := r.client.KeepAliveOnce(ctx, p.lease); err != nil {
			p.lease = 0
		}
	}
	if p.lease == 0 {
		l, err := r.client.Grant(ctx, int64(reportTTL/time.Second))
		if err != nil {
			return err
		}
		p.lease = l.ID
	}
	s := r.etcd.Server
	text, err := json.Marshal(report{
		Name: r.id.Name, Version: version.Version, Applied: s.AppliedIndex(), Size: s.Backend().Size(), InUse: s.Backend().SizeInUse(),
		Lead: n.c.Lead, Copy: n.lastSnapshot(), At: time.Now().UTC().Truncate(time.Second),
	})
	if err != nil {
		return err
	}
	_, err = r.client.Put(ctx, reportKey(uint64(s.MemberID())), string(text), clientv3.WithLease(p.lease))
	return err
}
