package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Status is how the member here does, and what it knows of the others.
type Status struct {
	Name      string `json:"name"`
	Advertise string `json:"advertise"`
	State     State  `json:"state"`
	Error     string `json:"error,omitempty"`
	// Quorum: the member is part of a majority that has a leader.
	Quorum  bool   `json:"quorum"`
	Leader  string `json:"leader,omitempty"`
	Learner bool   `json:"learner,omitempty"`
	Applied uint64 `json:"applied,omitempty"`
	Term    uint64 `json:"term,omitempty"`
	// Size is what the data takes on disk, and InUse what of it holds something.
	Size  int64 `json:"size_bytes,omitempty"`
	InUse int64 `json:"in_use_bytes,omitempty"`
	// Copy is when the last copy of the data was made here.
	Copy    time.Time      `json:"last_snapshot,omitzero"`
	Pairing bool           `json:"pairing,omitempty"` // the port for codes is open
	Members []MemberStatus `json:"members"`
}

// Health of a member. Unknown is not bad.
type Health string

// The values of Health.
const (
	HealthGood    Health = "good"
	HealthBad     Health = "bad"
	HealthUnknown Health = "unknown" // this member is in no majority itself
)

// MemberStatus is one member.
type MemberStatus struct {
	Name      string    `json:"name"` // empty until it has started once
	ID        string    `json:"id"`
	Advertise string    `json:"advertise"`
	Learner   bool      `json:"learner,omitempty"`
	Leader    bool      `json:"leader,omitempty"`
	Health    Health    `json:"health"`
	Version   string    `json:"version,omitempty"`
	Size      int64     `json:"size_bytes,omitempty"`
	Behind    uint64    `json:"behind,omitempty"` // entries, at its last report
	Copy      time.Time `json:"last_snapshot,omitzero"`
}

// statusTime bounds the look at what is in the member itself.
const statusTime = 2 * time.Second

// Status says how it does, by what is known here: nobody is asked over a network.
func (n *Node) Status() Status {
	n.mu.Lock()
	s := Status{Name: n.c.Name, Advertise: n.c.Advertise, State: n.state, Pairing: n.pair != nil, Members: []MemberStatus{}}
	if n.err != nil {
		s.Error = n.err.Error()
	}
	r := n.run
	n.mu.Unlock()
	s.Copy = n.lastSnapshot()
	if r == nil || s.State == StateBroken {
		return s
	}
	server := r.etcd.Server
	s.Quorum = server.Leader() != 0 && s.State == StateRunning
	s.Applied, s.Term = server.AppliedIndex(), server.Term()
	s.Size, s.InUse = server.Backend().Size(), server.Backend().SizeInUse()
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	said, _ := reports(ctx, r.client, clientv3.WithSerializable())
	for _, m := range server.Cluster().Members() {
		one := MemberStatus{
			Name: m.Name, ID: m.ID.String(), Advertise: hostOf(m.PeerURLs), Learner: m.IsLearner,
			Leader: m.ID == server.Leader(), Health: HealthUnknown,
		}
		if one.Leader {
			s.Leader = m.Name
		}
		if m.ID == server.MemberID() { // etcd's own IsLearner panics when it was removed
			s.Learner = m.IsLearner
		}
		if s.Quorum {
			one.Health = HealthBad
		}
		if rep, ok := said[uint64(m.ID)]; ok {
			one.Version, one.Size, one.Copy = rep.Version, rep.Size, rep.Copy
			one.Behind = max(s.Applied, rep.Applied) - rep.Applied
			if s.Quorum {
				one.Health = HealthGood
			}
		}
		s.Members = append(s.Members, one)
	}
	slices.SortFunc(s.Members, func(a, b MemberStatus) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return s
}
