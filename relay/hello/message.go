package hello

import "encoding/binary"

// Extension numbers, from the IANA registry "TLS ExtensionType Values".
const (
	extServerName = 0      // RFC 6066, section 3
	extALPN       = 16     // RFC 7301, section 3.1
	extEarlyData  = 42     // RFC 8446, section 4.2.10
	extECH        = 0xfe0d // RFC 9849, section 5
)

// Bounds of the part before the extensions, RFC 8446, section 4.1.2.
const (
	versionAndRandomLen = 2 + 32
	maxSessionIDLen     = 32
)

// read fills in what the message says; b is the message without its header.
func (info *Info) read(b []byte) *Error {
	c := cursor(b)
	if !skipFixedPart(&c) {
		return errFixedPart
	}
	if len(c) == 0 { // hellos from before TLS 1.2 may have no extensions at all
		return nil
	}
	list, ok := c.vector16()
	if !ok || len(c) != 0 {
		return errExtensions
	}
	return info.readExtensions(list)
}

func skipFixedPart(c *cursor) bool {
	if _, ok := c.take(versionAndRandomLen); !ok {
		return false
	}
	if id, ok := c.vector8(); !ok || len(id) > maxSessionIDLen {
		return false
	}
	if suites, ok := c.vector16(); !ok || len(suites) == 0 || len(suites)%2 != 0 {
		return false
	}
	compression, ok := c.vector8()
	return ok && len(compression) > 0
}

func (info *Info) readExtensions(list cursor) *Error {
	var names, protocols cursor
	var haveNames, haveProtocols bool
	for len(list) > 0 {
		id, ok1 := list.uint16()
		data, ok2 := list.vector16()
		if !ok1 || !ok2 {
			return errExtensions
		}
		switch id {
		case extServerName:
			if haveNames {
				return errDuplicate
			}
			names, haveNames = data, true
		case extALPN:
			if haveProtocols {
				return errDuplicate
			}
			protocols, haveProtocols = data, true
		case extEarlyData:
			info.EarlyData = true
		case extECH:
			info.ECH = true
		}
	}
	if haveNames {
		if err := info.readServerName(names); err != nil {
			return err
		}
	}
	if haveProtocols {
		return info.readProtocols(protocols)
	}
	return nil
}

// cursor is the unread rest of a message. Its methods report false, and leave
// it as it is or shorter, when the bytes do not suffice.
type cursor []byte

func (c *cursor) take(n int) (cursor, bool) {
	if len(*c) < n {
		return nil, false
	}
	b := (*c)[:n]
	*c = (*c)[n:]
	return b, true
}

func (c *cursor) uint8() (int, bool) {
	b, ok := c.take(1)
	if !ok {
		return 0, false
	}
	return int(b[0]), true
}

func (c *cursor) uint16() (int, bool) {
	b, ok := c.take(2)
	if !ok {
		return 0, false
	}
	return int(binary.BigEndian.Uint16(b)), true
}

func (c *cursor) vector8() (cursor, bool) {
	n, ok := c.uint8()
	if !ok {
		return nil, false
	}
	return c.take(n)
}

func (c *cursor) vector16() (cursor, bool) {
	n, ok := c.uint16()
	if !ok {
		return nil, false
	}
	return c.take(n)
}
