package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/pkg/v3/featuregate"
	"go.etcd.io/etcd/server/v3/embed"
)

// compactAfter is how long old revisions are kept, and checkEvery how often the leader
// compares what the members have.
const (
	compactAfter = "1h"
	checkEvery   = 4 * time.Hour
)

// etcdConfig is what etcd is started with. It listens for members only.
func (n *Node) etcdConfig(id *identity) *embed.Config {
	c := embed.NewConfig()
	c.Name = id.Name
	c.Dir = n.files.path(dataFolder)
	c.TickMs = uint(n.c.Heartbeat.Milliseconds())
	c.ElectionMs = uint(n.c.Election.Milliseconds())
	c.QuotaBackendBytes = n.c.Quota
	c.ListenPeerUrls = []url.URL{{Scheme: "https", Host: n.c.Listen}}
	c.AdvertisePeerUrls = []url.URL{{Scheme: "https", Host: n.c.Advertise}}
	c.ListenClientUrls, c.AdvertiseClientUrls = nil, nil
	c.EnableGRPCGateway = false
	c.PeerTLSInfo = transport.TLSInfo{
		CertFile: n.files.path(memberFile), KeyFile: n.files.path(memberKeyFile), TrustedCAFile: n.files.path(authorityFile),
		ClientCertAuth: true, ServerName: serverName,
		// Members are known by their authority: where they come from says nothing.
		SkipClientSANVerify: true,
	}
	c.TlsMinVersion = "TLS1.3"
	c.InitialCluster = initial(id.Initial)
	c.InitialClusterToken = id.Cluster
	c.ClusterState = embed.ClusterStateFlagExisting
	if id.First {
		c.ClusterState = embed.ClusterStateFlagNew
	}
	c.StrictReconfigCheck = true
	c.PreVote = true
	c.AutoCompactionMode = embed.CompactorModePeriodic
	c.AutoCompactionRetention = compactAfter
	c.CorruptCheckTime = checkEvery
	if gate, ok := c.ServerFeatureGate.(featuregate.MutableFeatureGate); ok {
		// Its only errors are names that it does not know.
		if err := gate.SetFromMap(map[string]bool{"InitialCorruptCheck": true, "CompactHashCheck": true}); err != nil {
			n.c.Log.Error("etcd has no corruption check", "error", err)
		}
	}
	log := newLogger(n.c.Log.With("etcd", id.Name), n.setBroken)
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	return c
}

func initial(members map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		list = append(list, name+"="+members[name])
	}
	return strings.Join(list, ",")
}

func (n *Node) setBroken(message string) {
	if n.broken.CompareAndSwap(nil, &message) {
		n.c.Log.Error("the cluster's member is broken: restart the process once the cause is gone, or replace the member", "error", message)
	}
	select {
	case n.ended <- struct{}{}:
	default:
	}
}

// started is what came of a start.
type started struct {
	etcd *embed.Etcd
	err  error
}

// errEnded says that etcd has ended the goroutine that started it.
var errEnded = errors.New("etcd gave up")

// startEtcd starts etcd in a goroutine of its own, which may be ended by setBroken, or
// wait for ever for another one that was.
func (n *Node) startEtcd(ctx context.Context, c *embed.Config) (*embed.Etcd, error) {
	result := make(chan started, 1)
	go func() {
		s := started{err: errEnded}
		defer func() { result <- s }()
		s.etcd, s.err = embed.StartEtcd(c)
	}()
	select {
	case s := <-result:
		if s.err != nil {
			return nil, fmt.Errorf("starting the member: %w", s.err)
		}
		return s.etcd, nil
	case <-n.ended:
		go abandon(result)
		return nil, errEnded
	case <-ctx.Done():
		// A start can't be called off, and takes as long as the other members take to
		// answer. What comes of it is closed.
		select {
		case s := <-result:
			if s.err == nil {
				s.etcd.Close()
			}
		case <-time.After(closeTime):
			go abandon(result)
		}
		return nil, ctx.Err()
	}
}

// abandon closes what nobody waits for any more.
func abandon(result <-chan started) {
	if s := <-result; s.err == nil {
		s.etcd.Close()
	}
}
