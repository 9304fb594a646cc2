// Package plan compares what servers of HAProxy should be with what they are, and
// says what to write next.
//
// It is pure. Next returns one batch; who calls it writes that, reads back, and asks
// again with what was read, until there is nothing left:
//
//	for batch := plan.Next(want, seen); len(batch) > 0; batch = plan.Next(want, seen) {
//		seen = write(batch)
//	}
//
// A server of which nothing is wanted is left as it is: unknown changes nothing. And
// a server is taken from visitors only while another one of its backend is seen to
// serve and will go on, or if all of them are to be taken away. So what cannot be
// brought into service keeps in service what is there.
package plan
