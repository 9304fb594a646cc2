package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Init makes a cluster whose only member is this machine.
func (n *Node) Init() error {
	n.joining.Lock()
	defer n.joining.Unlock()
	if err := n.clear(); err != nil {
		return err
	}
	a, err := newAuthority(time.Now())
	if err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	cert, err := a.issue(n.c.Name, key.Public(), time.Now())
	if err != nil {
		return err
	}
	token := make([]byte, 16)
	_, _ = rand.Read(token)
	id := &identity{
		Name: n.c.Name, Cluster: "edgeward-" + hex.EncodeToString(token), First: true,
		Initial: map[string]string{n.c.Name: peerURL(n.c.Advertise)},
	}
	if err := n.files.keep(a, cert, key, id); err != nil {
		return err
	}
	n.poke()
	return nil
}

// clear makes room for another membership, unless there is one in force.
func (n *Node) clear() error {
	id, err := n.files.identity()
	if err != nil {
		return err
	}
	if id != nil && !id.Removed && (id.Ready || id.First) {
		return fmt.Errorf("%w: it is %s", ErrMember, id.Name)
	}
	n.mu.Lock()
	runs := n.run != nil
	n.mu.Unlock()
	if runs || n.broken.Load() != nil {
		return fmt.Errorf("%w, and it is still ending or starting: restart the process", ErrMember)
	}
	return n.files.clear()
}

func (n *Node) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Join makes this machine a member of the cluster that the code is of, which is taken
// at address.
func (n *Node) Join(ctx context.Context, address, text string) error {
	n.joining.Lock()
	defer n.joining.Unlock()
	c, err := parseCode(text)
	if err != nil {
		return err
	}
	if _, _, err := split(address); err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	if err := n.clear(); err != nil {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	req, err := request(key)
	if err != nil {
		return err
	}
	answer, err := c.ask(ctx, address, joinRequest{Code: c.String(), Name: n.c.Name, Advertise: n.c.Advertise, Request: string(req)})
	if err != nil {
		return err
	}
	a, err := parseAuthority([]byte(answer.Authority), []byte(answer.AuthorityKey))
	if err != nil {
		return err
	}
	cert, err := parseCert([]byte(answer.Cert))
	if err != nil {
		return fmt.Errorf("reading the certificate: %w", err)
	}
	if answer.Cluster == "" || answer.Members[n.c.Name] != peerURL(n.c.Advertise) {
		return fmt.Errorf("joining: the answer of %s is of no use: does it run another version?", address)
	}
	id := &identity{Name: n.c.Name, Cluster: answer.Cluster, Initial: answer.Members}
	if err := n.files.keep(a, cert.Raw, key, id); err != nil {
		return err
	}
	n.poke()
	return nil
}

// ask trades the code. What came of it is not known if the answer is lost: then
// another code is made, and what was begun is taken back with it.
func (c code) ask(ctx context.Context, address string, req joinRequest) (*joinAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, pairTime)
	defer cancel()
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+address+"/join", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS13,
		// No name and no authority of the system's is asked: verify is.
		InsecureSkipVerify: true, VerifyConnection: c.verify,
	}}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("could not confirm joining: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("could not confirm joining: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var p joinProblem
		if json.Unmarshal(text, &p) != nil || p.Error == "" {
			p.Error = resp.Status
		}
		return nil, fmt.Errorf("joining: %s says: %s", address, p.Error)
	}
	a := new(joinAnswer)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("joining: reading the answer: %w", err)
	}
	return a, nil
}
