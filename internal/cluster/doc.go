// Package cluster is the place where several machines agree: an etcd member inside of
// this process, for those who have no etcd of their own. Three machines that the user
// runs anyway, two homes and the relay, are the voters, and any one of them may be lost.
//
// A Node is this machine's member. The first one makes the cluster (Init); it gives out
// one-shot codes, with which others join (Code, Join): they get a certificate of the
// cluster's own authority, become learners, and are promoted when they have caught up.
// A Node starts without a network, never gives up, and looks after its data: it is
// compacted, defragmented one member at a time, and a copy of it is kept every day.
//
// Members speak mutual TLS on one port. There is no port for clients: what runs in this
// process uses Client, which calls the member directly, and with no majority gets an
// error. External is a client of an etcd that others run.
//
//	n, err := cluster.New(cluster.Config{Name: "nuc", Dir: dir, Listen: ":7380", Advertise: "10.8.0.8:7380", Log: log})
//	if err != nil {
//		return err
//	}
//	n.Start()
//	defer n.Stop()
//	client, err := n.Client() // ErrNotReady until it runs
//
// It knows nothing of what is agreed upon.
package cluster
