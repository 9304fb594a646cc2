package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Errors of membership.
var (
	// ErrMember says that this machine is a member already.
	ErrMember = errors.New("this machine is a member of a cluster already")
	// ErrNoMember says that the cluster has no member of that name.
	ErrNoMember = errors.New("the cluster has no such member")
	// ErrAlive says that a member is not lost.
	ErrAlive = errors.New("that member is alive: remove it if it is to go")
	// ErrName says that a name is taken.
	ErrName = errors.New("a member of that name is in the cluster: replace it, or take another name")
	// ErrLast says that a cluster can't be left without members.
	ErrLast = errors.New("it is the only member")
)

// peerURL is what etcd calls an address of a member.
func peerURL(advertise string) string { return (&url.URL{Scheme: "https", Host: advertise}).String() }

func hostOf(peerURLs []string) string {
	if len(peerURLs) == 0 {
		return ""
	}
	u, err := url.Parse(peerURLs[0])
	if err != nil {
		return ""
	}
	return u.Host
}

func idText(id uint64) string { return strconv.FormatUint(id, 16) }

// admit adds a member as a learner, and returns the members with it by name. One that
// it replaces, and what an attempt of before has left, are removed first.
func admit(ctx context.Context, c *clientv3.Client, name, advertise, replace string) (map[string]string, error) {
	list, err := c.MemberList(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking who is in the cluster: %w", err)
	}
	for _, m := range list.Members {
		switch {
		case m.Name == replace && replace != "", m.Name == "" && (m.IsLearner || m.PeerURLs[0] == peerURL(advertise)):
			if _, err := c.MemberRemove(ctx, m.ID); err != nil {
				return nil, fmt.Errorf("removing the member before: %w", err)
			}
		case m.Name == name:
			return nil, ErrName
		}
	}
	added, err := addLearner(ctx, c, advertise)
	if err != nil {
		return nil, fmt.Errorf("adding the member: %w", err)
	}
	members := map[string]string{}
	for _, m := range added.Members {
		if m.ID == added.Member.ID {
			members[name] = m.PeerURLs[0]
		} else {
			members[m.Name] = m.PeerURLs[0]
		}
	}
	return members, nil
}

// addLearner waits for what passes by itself: voters that have seen each other for less
// than five seconds, another learner that catches up, and an id, which etcd makes of
// the second, that a removed member had.
func addLearner(ctx context.Context, c *clientv3.Client, advertise string) (*clientv3.MemberAddResponse, error) {
	for {
		added, err := c.MemberAddAsLearner(ctx, []string{peerURL(advertise)})
		passes := errors.Is(err, rpctypes.ErrUnhealthy) || errors.Is(err, rpctypes.ErrTooManyLearners) || errors.Is(err, rpctypes.ErrMemberNotFound)
		if !passes {
			return added, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second):
		}
	}
}

// Remove takes a member out of the cluster, also this one.
func (n *Node) Remove(ctx context.Context, name string) error {
	r, err := n.running()
	if err != nil {
		return err
	}
	list, err := r.client.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("asking who is in the cluster: %w", err)
	}
	m := member(list.Members, name)
	switch {
	case m == nil:
		return fmt.Errorf("%w: %s", ErrNoMember, name)
	case len(list.Members) == 1:
		return ErrLast
	}
	if _, err := r.client.MemberRemove(ctx, m.ID); err != nil {
		return fmt.Errorf("could not confirm the removal of %s: %w", name, err)
	}
	n.c.Log.Info("a member was removed from the cluster", "member", name)
	return nil
}

// member finds one by its name, or by its id where it has none yet.
func member(list []*pb.Member, name string) *pb.Member {
	for _, m := range list {
		if m.Name == name && name != "" || idText(m.ID) == name {
			return m
		}
	}
	return nil
}

// promote makes voters of learners that have caught up. Only the leader does.
func (n *Node) promote(ctx context.Context, r *running) {
	if r.etcd.Server.Leader() != r.etcd.Server.MemberID() {
		return
	}
	for _, m := range r.etcd.Server.Cluster().Members() {
		if !m.IsLearner || m.Name == "" {
			continue
		}
		if _, err := r.client.MemberPromote(ctx, uint64(m.ID)); err != nil {
			n.c.Log.Debug("a learner is not promoted yet", "member", m.Name, "error", err)
			continue
		}
		n.c.Log.Info("a member votes now", "member", m.Name)
	}
}

// move tells the others where this member is, if the config says something new.
func (n *Node) move(ctx context.Context, r *running) {
	for _, m := range r.etcd.Server.Cluster().Members() {
		want := peerURL(n.c.Advertise)
		if m.ID != r.etcd.Server.MemberID() || len(m.PeerURLs) == 1 && m.PeerURLs[0] == want {
			continue
		}
		if _, err := r.client.MemberUpdate(ctx, uint64(m.ID), []string{want}); err != nil {
			n.c.Log.Warn("could not tell the other members where this one is", "advertise", n.c.Advertise, "error", err)
		}
	}
}
