// Package hello reads a TLS ClientHello from the first bytes of a connection,
// as they arrive, without decrypting or answering anything.
//
// A hello may be cut into any number of TCP segments and any number of TLS
// records. [Parser.Parse] is given everything received so far, remembers how
// far it got, and decides as soon as the bytes suffice: for a client that does
// not speak TLS that is the first byte.
//
//	var p hello.Parser
//	p.Reset(0)
//	for {
//		n, err := conn.Read(buf[have:])
//		have += n
//		info, done, perr := p.Parse(buf[:have])
//		if done || perr != nil || err != nil {
//			return info, cmp.Or(perr, err)
//		}
//	}
//
// It does not read, wait or time out: the caller owns the socket, the buffer
// and the deadline. It does not check cipher suites, versions or key shares;
// whoever ends the TLS session does.
package hello

// DefaultMaxBytes is how many bytes on the wire a hello may take when Reset is
// given 0: 64 KiB, four full TLS records. Hellos with post-quantum key shares
// take about 1.8 KiB; the rest is room for long session tickets.
const DefaultMaxBytes = 64 << 10

// Info is what a complete hello says.
type Info struct {
	// ServerName is the name the client asks for, in lower case and without
	// its trailing dot (RFC 6066, section 3). Empty when the hello has none.
	// With ECH it is the outer, public name.
	ServerName string
	// Protocols are the application protocols offered, in the client's order
	// (ALPN, RFC 7301, section 3.1). Nil when the hello has none. Common lists
	// are shared between hellos: read, do not write.
	Protocols []string
	// ECH says that the hello carries an encrypted_client_hello extension
	// (RFC 9849, section 5). Browsers also send one that holds only noise.
	ECH bool
	// EarlyData says that the client means to send data before the handshake
	// ends (RFC 8446, section 4.2.10).
	EarlyData bool
	// Bytes is the hello's length on the wire, TLS record headers included,
	// up to its last byte.
	Bytes int
	// Records is how many TLS records the hello was spread over.
	Records int
	// Segments is how many calls to Parse brought new bytes.
	Segments int
}

// Reason says why no hello was read. It is stable: logs and metrics use it.
type Reason string

// The reasons.
const (
	NotTLS    Reason = "not_tls"         // the first bytes are no TLS handshake record
	NotHello  Reason = "not_hello"       // a TLS handshake record, but not a ClientHello
	Malformed Reason = "bad_hello"       // a ClientHello that breaks its own format
	TooLarge  Reason = "hello_too_large" // longer than the byte limit given to Reset
)

// Error says that the bytes will never become a usable hello. Errors are shared
// between parsers: read, do not write.
type Error struct {
	Reason Reason
	Detail string // what was wrong, for people
}

// Error returns the reason and the detail.
func (e *Error) Error() string { return string(e.Reason) + ": " + e.Detail }

// All errors are made once, so that a flood of bad clients costs no memory.
var (
	errFirstByte     = &Error{NotTLS, "the first byte is not that of a TLS handshake record"}
	errFirstVersion  = &Error{NotTLS, "the record version is not 3.x"}
	errMessageType   = &Error{NotHello, "the first handshake message is not a ClientHello"}
	errAnnounced     = &Error{TooLarge, "the announced length is over the hello byte limit"}
	errReceived      = &Error{TooLarge, "the hello byte limit was reached before the end"}
	errRecordLength  = &Error{Malformed, "a record is empty or longer than 16384 bytes"}
	errRecordType    = &Error{Malformed, "a record inside the hello is not a handshake record"}
	errRecordVersion = &Error{Malformed, "a record inside the hello has a version other than 3.x"}
	errFixedPart     = &Error{Malformed, "the part before the extensions is cut short or lies about a length"}
	errExtensions    = &Error{Malformed, "an extension lies about its length"}
	errDuplicate     = &Error{Malformed, "server_name or ALPN is given twice"}
	errNameList      = &Error{Malformed, "the server_name list lies about a length or is empty"}
	errTwoNames      = &Error{Malformed, "server_name holds two host names"}
	errNameLength    = &Error{Malformed, "the server name is empty or longer than 255 bytes"}
	errNameBytes     = &Error{Malformed, "the server name holds a byte that no host name has"}
	errProtocols     = &Error{Malformed, "the ALPN list lies about a length or holds an empty name"}
)
