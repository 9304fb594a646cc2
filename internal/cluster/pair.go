package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/net/netutil"
)

// CodeTime is how long a code is good.
const CodeTime = 10 * time.Minute

// Invitation is what a machine needs to join.
type Invitation struct {
	Code string `json:"code"`
	// Address is where the code is taken, from the machine's side.
	Address string    `json:"address"`
	Expires time.Time `json:"expires"`
	// Replaces is the member that the machine takes the place of, if any.
	Replaces string `json:"replaces,omitempty"`
}

const codePrefix = "/edgeward/cluster/code/"

func codeKey(c code) string {
	sum := c.hash()
	return codePrefix + hex.EncodeToString(sum[:])
}

// grant is what the cluster keeps of a code: its hash, what it is for, and, by an
// etcd lease, for how long.
type grant struct {
	Replaces string `json:"replaces,omitempty"`
}

// Code makes a code that is good once, for CodeTime, and opens the port where it is
// taken. With replace, whoever uses it takes the place of that member, which must be
// lost.
func (n *Node) Code(ctx context.Context, replace string) (Invitation, error) {
	r, err := n.running()
	if err != nil {
		return Invitation{}, err
	}
	if err := n.checkLost(ctx, r, replace); err != nil {
		return Invitation{}, err
	}
	a, err := n.files.authority()
	if err != nil {
		return Invitation{}, err
	}
	c := newCode(a.cert.Raw)
	l, err := r.client.Grant(ctx, int64(CodeTime/time.Second))
	if err != nil {
		return Invitation{}, fmt.Errorf("could not keep the code: %w", err)
	}
	text, err := json.Marshal(grant{replace})
	if err != nil {
		return Invitation{}, err
	}
	if _, err := r.client.Put(ctx, codeKey(c), string(text), clientv3.WithLease(l.ID)); err != nil {
		return Invitation{}, fmt.Errorf("could not keep the code: %w", err)
	}
	address, err := n.openPair(a)
	if err != nil {
		return Invitation{}, err
	}
	n.c.Log.Info("a code was made for a machine to join the cluster", "replaces", replace)
	return Invitation{Code: c.String(), Address: address, Expires: time.Now().Add(CodeTime).UTC().Truncate(time.Second), Replaces: replace}, nil
}

func (n *Node) checkLost(ctx context.Context, r *running, name string) error {
	if name == "" {
		return nil
	}
	list, err := r.client.MemberList(ctx)
	if err != nil {
		return fmt.Errorf("asking who is in the cluster: %w", err)
	}
	m := member(list.Members, name)
	if m == nil || m.Name == "" {
		return fmt.Errorf("%w: %s", ErrNoMember, name)
	}
	reports, err := reports(ctx, r.client)
	if err != nil {
		return err
	}
	if _, alive := reports[m.ID]; alive {
		return fmt.Errorf("%w: %s", ErrAlive, name)
	}
	return nil
}

// takeCode uses up a code. Of any number that try one, one succeeds.
func takeCode(ctx context.Context, c *clientv3.Client, k string) (g grant, ok bool, err error) {
	resp, err := c.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(k), ">", 0)).
		Then(clientv3.OpDelete(k, clientv3.WithPrevKV())).Commit()
	if err != nil || !resp.Succeeded {
		return g, false, err
	}
	before := resp.Responses[0].GetResponseDeleteRange().GetPrevKvs()
	if len(before) != 1 {
		return g, false, nil
	}
	return g, true, json.Unmarshal(before[0].Value, &g)
}

// pairing is the port that is open while there is a code.
type pairing struct {
	server *http.Server
	timer  *time.Timer
	done   chan struct{}
}

// The most that a stranger may use up at the port.
const (
	pairConns = 16
	pairBody  = 16 << 10
	pairTime  = 30 * time.Second
)

// openPair opens the port, or keeps it open for longer.
func (n *Node) openPair(a *authority) (address string, err error) {
	host, _, err := net.SplitHostPort(n.c.Advertise)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(n.c.Pair)
	if err != nil {
		return "", err
	}
	address = net.JoinHostPort(host, port)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pair != nil {
		n.pair.timer.Reset(CodeTime)
		return address, nil
	}
	ln, err := net.Listen("tcp", n.c.Pair)
	if err != nil {
		return "", fmt.Errorf("opening the port for codes, pair %s: %w", n.c.Pair, err)
	}
	cert, err := tls.LoadX509KeyPair(n.files.path(memberFile), n.files.path(memberKeyFile))
	if err != nil {
		return "", errors.Join(err, ln.Close())
	}
	cert.Certificate = append(cert.Certificate[:1:1], a.cert.Raw)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /join", n.serveJoin)
	p := &pairing{done: make(chan struct{}), server: &http.Server{
		Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13},
		ReadTimeout: pairTime, WriteTimeout: pairTime, IdleTimeout: time.Second, MaxHeaderBytes: 4 << 10,
		ErrorLog: slog.NewLogLogger(n.c.Log.Handler(), slog.LevelDebug),
	}}
	go p.serve(netutil.LimitListener(ln, pairConns))
	p.timer = time.AfterFunc(CodeTime, n.closePair)
	n.pair = p
	return address, nil
}

func (p *pairing) serve(ln net.Listener) {
	defer close(p.done)
	_ = p.server.ServeTLS(ln, "", "")
}

func (n *Node) closePair() {
	n.mu.Lock()
	p := n.pair
	n.pair = nil
	n.mu.Unlock()
	if p == nil {
		return
	}
	p.timer.Stop()
	_ = p.server.Close()
	<-p.done
}

// joinRequest is what a machine sends that wants to join, and joinAnswer what makes it
// a member.
type (
	joinRequest struct {
		Code      string `json:"code"`
		Name      string `json:"name"`
		Advertise string `json:"advertise"`
		Request   string `json:"request"` // to sign its key
	}
	joinAnswer struct {
		Cluster      string            `json:"cluster"`
		Authority    string            `json:"authority"`
		AuthorityKey string            `json:"authority_key"`
		Cert         string            `json:"cert"`
		Members      map[string]string `json:"members"`
	}
	joinProblem struct {
		Error string `json:"error"`
	}
)

func (n *Node) serveJoin(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var req joinRequest
	status, err := http.StatusBadRequest, json.NewDecoder(http.MaxBytesReader(w, r.Body, pairBody)).Decode(&req)
	var answer any
	if err == nil {
		ctx, cancel := context.WithTimeout(r.Context(), pairTime)
		defer cancel()
		answer, status, err = n.join(ctx, req)
	}
	if err != nil {
		n.c.Log.Warn("a machine could not join the cluster", "name", req.Name, "from", r.RemoteAddr, "error", err)
		w.WriteHeader(status)
		answer = joinProblem{err.Error()}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// errUsed says nothing of codes to who has none.
var errUsed = errors.New("that code was used, has expired, or never was one")

func (n *Node) join(ctx context.Context, req joinRequest) (answer *joinAnswer, status int, err error) {
	c, err := parseCode(req.Code)
	if err != nil {
		return nil, http.StatusForbidden, errUsed
	}
	if err := errors.Join(CheckName(req.Name), CheckAdvertise(req.Advertise)); err != nil {
		return nil, http.StatusBadRequest, err
	}
	key, err := requested([]byte(req.Request))
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the request to sign: %w", err)
	}
	r, err := n.running()
	if err != nil {
		return nil, http.StatusServiceUnavailable, err
	}
	n.admitting.Lock()
	defer n.admitting.Unlock()
	g, ok, err := takeCode(ctx, r.client, codeKey(c))
	switch {
	case err != nil:
		return nil, http.StatusServiceUnavailable, fmt.Errorf("looking at the code: %w", err)
	case !ok:
		return nil, http.StatusForbidden, errUsed
	}
	a, err := n.files.authority()
	if err != nil {
		return nil, http.StatusInternalServerError, err
	}
	cert, err := a.issue(req.Name, key, time.Now())
	if err != nil {
		return nil, http.StatusInternalServerError, err
	}
	authorityKey, err := encodeKey(a.key)
	if err != nil {
		return nil, http.StatusInternalServerError, err
	}
	members, err := admit(ctx, r.client, req.Name, req.Advertise, g.Replaces)
	if err != nil {
		return nil, http.StatusConflict, fmt.Errorf("%w; the code is used up: make another one", err)
	}
	n.c.Log.Info("a machine joins the cluster", "member", req.Name, "advertise", req.Advertise, "replaces", g.Replaces)
	return &joinAnswer{
		Cluster: r.id.Cluster, Members: members, Cert: string(encode(pemCert, cert)),
		Authority: string(encode(pemCert, a.cert.Raw)), AuthorityKey: string(authorityKey),
	}, http.StatusOK, nil
}

// verify accepts the member whose authority the code names, and nobody else.
func (c code) verify(s tls.ConnectionState) error {
	roots := x509.NewCertPool()
	for _, cert := range s.PeerCertificates[1:] {
		if cert.IsCA && fingerprint(cert.Raw) == c.authority {
			roots.AddCert(cert)
		}
	}
	_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: serverName})
	if err != nil {
		return fmt.Errorf("that is not the cluster that the code is for: %w", err)
	}
	return nil
}
