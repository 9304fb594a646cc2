// Package ddns is the one updater of a home's domain, at the home that holds its lease:
// it finds this home's addresses, writes them into the A and AAAA records, and keeps
// them so until it is told to stop.
//
//	d, err := ddns.New(ddns.Config{ID: "attic", Zones: zones, Finder: &origin.Finder{}})
//	...
//	err = d.On(ctx, home, lease.May)  // the records are read back when it returns
//	err = d.Verify(ctx, home)         // and name servers and a resolver show them
//	err = d.Off(ctx, home.ID)         // nothing of ours can land any more
//
// Each record says in its comment whose domain it is part of, and by which epoch of
// the lease it was written: see [Stamp]. A record with a higher epoch ends the writing,
// and a record that is not ours is refused. The provider knows no condition on a write,
// so that one which was under way when the lease went to another home may still land
// after that one's. It has less than [Config.Settle] for that, which a new holder waits;
// and should it be later still, the holder finds the lower epoch at its next look and
// writes again. That look comes every few seconds in the beginning.
//
// An address that cannot be found out changes no record of our own making. That we
// have no IPv6 is believed after several rounds in which IPv4 was found and no source
// answered over IPv6.
package ddns
