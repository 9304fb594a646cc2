package hello

import "encoding/binary"

// Wire constants of RFC 8446.
const (
	recordHeaderLen   = 5       // section 5.1: type, version, length
	maxRecordLen      = 1 << 14 // section 5.1: TLSPlaintext.length, no hello is ever encrypted
	contentHandshake  = 22      // section 5.1
	messageHeaderLen  = 4       // section 4: type and a 24-bit length
	typeClientHello   = 1       // section 4
	recordVersionHigh = 3       // section 5.1: 0x0301 or 0x0303
)

// Parser reads one hello. The zero value is ready, with DefaultMaxBytes; Reset
// makes it ready for the next connection and keeps its scratch memory, so
// parsers are worth pooling. It is not safe for concurrent use.
type Parser struct {
	max      int
	seen     int // length of wire at the last call
	segments int
	records  int
	next     int // offset in wire of the first byte not scanned yet
	left     int // payload bytes of the current record after next
	body     int // handshake bytes scanned
	need     int // length of the message with its header; 0 until known
	header   [messageHeaderLen]byte
	err      *Error
	scratch  []byte // holds a message that came in several records
}

// Reset forgets the connection. A hello may take maxBytes on the wire;
// 0 or less means DefaultMaxBytes.
func (p *Parser) Reset(maxBytes int) {
	*p = Parser{max: maxBytes, scratch: p.scratch}
}

// Parse looks at wire, which holds all bytes received so far: earlier bytes
// must not change between calls. It keeps no reference to wire.
//
// It returns done with the Info once the hello is complete; wire may hold more
// bytes behind it. It returns an *Error as soon as the bytes show that they
// will never become a usable hello, and the same one if called again. With
// neither, more bytes are needed.
//
// Each call costs the new bytes only, and the message itself is read once, when
// it is complete.
func (p *Parser) Parse(wire []byte) (info Info, done bool, err error) {
	if len(wire) > p.seen {
		p.seen = len(wire)
		p.segments++
	}
	if p.err == nil {
		info, done, p.err = p.parse(wire)
	}
	if p.err != nil {
		return Info{}, false, p.err
	}
	return info, done, nil
}

func (p *Parser) parse(wire []byte) (Info, bool, *Error) {
	if err := p.scan(wire[:min(len(wire), p.limit())]); err != nil {
		return Info{}, false, err
	}
	if !p.complete() || p.next > len(wire) {
		if len(wire) > p.limit() {
			return Info{}, false, errReceived
		}
		return Info{}, false, nil
	}
	info := Info{Bytes: p.next, Records: p.records, Segments: p.segments}
	if err := info.read(p.message(wire)); err != nil {
		return Info{}, false, err
	}
	return info, true, nil
}

func (p *Parser) limit() int {
	if p.max <= 0 {
		return DefaultMaxBytes
	}
	return p.max
}

func (p *Parser) complete() bool { return p.need > 0 && p.body == p.need }

// scan walks over record headers and payloads. Its verdict depends on the bytes
// alone and not on how they were cut into calls.
func (p *Parser) scan(wire []byte) *Error {
	for p.next < len(wire) && !p.complete() {
		if p.left == 0 {
			if err := p.startRecord(wire[p.next:]); err != nil || p.left == 0 {
				return err
			}
			continue
		}
		if err := p.takePayload(wire[p.next:]); err != nil {
			return err
		}
	}
	return nil
}

// startRecord reads a record header, or as much of it as b holds.
func (p *Parser) startRecord(b []byte) *Error {
	badType, badVersion := errRecordType, errRecordVersion
	if p.records == 0 {
		badType, badVersion = errFirstByte, errFirstVersion
	}
	switch {
	case b[0] != contentHandshake:
		return badType
	case len(b) > 1 && b[1] != recordVersionHigh:
		return badVersion
	case len(b) < recordHeaderLen:
		return nil
	}
	n := int(binary.BigEndian.Uint16(b[3:]))
	if n == 0 || n > maxRecordLen {
		return errRecordLength
	}
	p.records++
	p.next += recordHeaderLen
	p.left = n
	return nil
}

// takePayload moves over the part of the current record that b holds, stopping
// at the end of the message header and of the message.
func (p *Parser) takePayload(b []byte) *Error {
	if p.need > 0 {
		p.advance(min(len(b), p.left, p.need-p.body))
		return nil
	}
	n := min(len(b), p.left, messageHeaderLen-p.body)
	copy(p.header[p.body:], b[:n])
	p.advance(n)
	if p.header[0] != typeClientHello {
		return errMessageType
	}
	if p.body < messageHeaderLen {
		return nil
	}
	p.need = messageHeaderLen + int(binary.BigEndian.Uint32(p.header[:])&0xffffff)
	if p.shortestEnd() > p.limit() {
		return errAnnounced
	}
	return nil
}

func (p *Parser) advance(n int) {
	p.next += n
	p.left -= n
	p.body += n
}

// shortestEnd is where the message ends on the wire if all records to come are
// as long as they may be.
func (p *Parser) shortestEnd() int {
	rest := p.need - p.body
	later := max(0, rest-p.left)
	headers := (later + maxRecordLen - 1) / maxRecordLen
	return p.next + rest + headers*recordHeaderLen
}

// message returns the complete message without its header: a part of wire when
// it came in one record, else a copy.
func (p *Parser) message(wire []byte) []byte {
	if p.records == 1 {
		return wire[recordHeaderLen+messageHeaderLen : p.next]
	}
	if cap(p.scratch) < p.need {
		p.scratch = make([]byte, 0, p.need)
	}
	gathered := p.scratch[:0]
	for at := 0; at < p.next; {
		n := int(binary.BigEndian.Uint16(wire[at+3:]))
		at += recordHeaderLen
		gathered = append(gathered, wire[at:min(at+n, p.next)]...)
		at += n
	}
	return gathered[messageHeaderLen:]
}
