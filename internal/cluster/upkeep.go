package cluster

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
)

// How often things are looked after.
const (
	lookEvery   = time.Second
	askTime     = 5 * time.Second
	defragEvery = 24 * time.Hour
	copyEvery   = 24 * time.Hour
	copyAgain   = time.Hour
	certEvery   = 24 * time.Hour
)

// upkeep looks after a member that runs. Whatever fails is tried again later.
func (n *Node) upkeep(ctx context.Context, r *running) {
	var (
		p        reporter
		h        handover
		reported time.Time
		leader   uint64 // when that was
		copied   time.Time
		cared    = time.Now()
		certs    = time.Now()
	)
	select {
	case <-r.etcd.Server.ReadyNotify():
	case <-ctx.Done():
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		limit, cancel := context.WithTimeout(ctx, askTime)
		n.promote(limit, r)
		n.move(limit, r)
		if now := uint64(r.etcd.Server.Leader()); time.Since(reported) >= reportEvery || now != leader {
			if err := p.put(limit, n, r); err == nil {
				reported, leader = time.Now(), now
			} else if ctx.Err() == nil {
				n.c.Log.Debug("the member could not say how it does", "error", err)
			}
		}
		h.look(limit, n, r)
		cancel()
		if time.Since(copied) >= copyAgain { // the disk may be full
			copied = time.Now()
			n.copyDaily(ctx, r)
		}
		if time.Since(cared) >= defragEvery && n.defrag(ctx, r) {
			cared = time.Now()
		}
		if time.Since(certs) >= certEvery {
			certs = time.Now()
			if _, err := n.files.renewCert(r.id.Name, certs); err != nil {
				n.c.Log.Error("renewing the member's certificate", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// handover gives the leadership to a member that is to have it (Config.Lead). Where the
// links between members are a star, a leader at its rim is one that some cannot hear
// when a link between two of them is cut, and then they have no majority.
type handover struct{ since int64 } // the revision at which this member was seen to lead; 0: it does not

// look hands over if this member leads, and another one, which is to, has said since that
// it is well. A report from before could be that of a dead one.
func (h *handover) look(ctx context.Context, n *Node, r *running) {
	s := r.etcd.Server
	if s.Leader() != s.MemberID() || n.c.Lead {
		h.since = 0
		return
	}
	said, err := reports(ctx, r.client)
	if err != nil {
		return
	}
	if h.since == 0 {
		for _, one := range said {
			h.since = max(h.since, one.rev)
		}
		return
	}
	to := h.to(uint64(s.MemberID()), s.AppliedIndex(), s.Cluster().Members(), said)
	if to == 0 {
		return
	}
	if err := r.guard.do(func() error { return s.MoveLeader(ctx, uint64(s.MemberID()), to) }); err != nil {
		n.c.Log.Warn("another member is to lead, and could not be given the lead", "member", said[to].Name, "error", err)
		return
	}
	n.c.Log.Info("another member leads, as it is to", "member", said[to].Name)
}

// to is the voter that is to lead, if there is one that is well. 0: none.
func (h *handover) to(self, applied uint64, members []*membership.Member, said map[uint64]report) (to uint64) {
	for _, m := range members {
		id := uint64(m.ID)
		r, alive := said[id]
		if id != self && !m.IsLearner && alive && r.Lead && r.rev > h.since && r.Applied+maxBehind >= applied && (to == 0 || id < to) {
			to = id
		}
	}
	return to
}

const defragKey = "/edgeward/cluster/defrag"

// The least that is worth it, and what it may take.
const (
	defragBytes = 8 << 20
	defragTime  = 2 * time.Minute
	maxBehind   = 1000 // entries
)

// defrag gives back what the data does not use any more. Meanwhile the member answers
// nothing, so it is one at a time, and only while all the others are well. It reports
// whether it is done for today.
func (n *Node) defrag(ctx context.Context, r *running) bool {
	s := r.etcd.Server
	if size, used := s.Backend().Size(), s.Backend().SizeInUse(); size-used < defragBytes || used > size/2 {
		return true
	}
	limit, cancel := context.WithTimeout(ctx, defragTime)
	defer cancel()
	l, err := r.client.Grant(limit, int64(defragTime/time.Second))
	if err != nil {
		return false
	}
	defer func() { _, _ = r.client.Revoke(context.WithoutCancel(limit), l.ID) }()
	got, err := r.client.Txn(limit).If(clientv3.Compare(clientv3.CreateRevision(defragKey), "=", 0)).
		Then(clientv3.OpPut(defragKey, r.id.Name, clientv3.WithLease(l.ID))).Commit()
	if err != nil || !got.Succeeded {
		return false
	}
	said, err := reports(limit, r.client)
	if err != nil {
		return false
	}
	next, ok := othersWell(uint64(s.MemberID()), s.AppliedIndex(), s.Cluster().Members(), said)
	if !ok {
		return false
	}
	if s.Leader() == s.MemberID() && next != 0 {
		if err := r.guard.do(func() error { return s.MoveLeader(limit, uint64(s.MemberID()), next) }); err != nil {
			return false
		}
	}
	before, began := s.Backend().Size(), time.Now()
	if err := r.guard.do(s.Backend().Defrag); err != nil {
		n.c.Log.Error("defragmenting the cluster's data", "error", err)
		return false
	}
	n.c.Log.Info("the cluster's data was defragmented", "before", before, "after", s.Backend().Size(), "took", time.Since(began))
	return true
}

// othersWell says whether all voters but self have reported and are not behind, and who
// of them may lead. Alone there is nobody to wait for.
func othersWell(self, applied uint64, members []*membership.Member, said map[uint64]report) (leader uint64, ok bool) {
	best := uint64(0)
	for _, m := range members {
		id := uint64(m.ID)
		if id == self || m.IsLearner {
			continue
		}
		r, alive := said[id]
		if !alive || r.Applied+maxBehind < applied {
			return 0, false
		}
		if leader == 0 || r.Applied > best {
			leader, best = id, r.Applied
		}
	}
	return leader, true
}
