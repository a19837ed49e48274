package mintleaf

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	// The longest body of an answer, and the longest head.
	answerBytesMax = 1 << 20
	headBytesMax   = 64 << 10
	// A connection that rested longer is not used again. Nodes close theirs after 75 s.
	idleMax = 60 * time.Second
	// The most kept connections to one endpoint.
	keptMax = 64
	// How many answers 1xx may come before the answer.
	informalMax = 4
)

var (
	errTooLong        = errors.New("the answer is too long")
	errTransportEnded = errors.New("the client is closed")
)

// address is where a node is.
type address struct {
	isTLS     bool
	host      string
	authority string
	dial      string
}

func parseAddress(text string) (address, error) {
	fault := invalid("endpoint %q must be http://HOST:PORT or https://HOST:PORT", text)
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery ||
		u.Fragment != "" || u.Path != "" && u.Path != "/" {
		return address{}, fault
	}
	port := u.Port()
	switch {
	case u.Scheme != "http" && u.Scheme != "https", u.Host[len(u.Host)-1] == ':':
		return address{}, fault
	case port == "" && u.Scheme == "http":
		port = "80"
	case port == "":
		port = "443"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return address{}, fault
	}
	return address{
		isTLS:     u.Scheme == "https",
		host:      u.Hostname(),
		authority: u.Host,
		dial:      net.JoinHostPort(u.Hostname(), port),
	}, nil
}

// httpTransport speaks HTTP/1.1, with or without TLS. It has no goroutine of its
// own: a request is written and its answer read by the goroutine that asks.
//
// A request is sent once, with one exception: when a kept connection turns out
// to be closed, it is sent once more on a new one. That second request gets
// other ids. If the first was answered too, its answer is lost with the
// connection.
type httpTransport struct {
	addresses      []address
	tls            *tls.Config
	token          func() string
	connectTimeout time.Duration

	mu       sync.Mutex
	isClosed bool
	// open are all connections, kept those that rest, by endpoint.
	open   map[*conn]bool
	kept   [][]*conn
	active sync.WaitGroup
}

// conn is a connection to a node.
type conn struct {
	net.Conn
	reader *bufio.Reader
	// left is how many bytes the present answer may still have.
	left int64
	// idle ends the connection when it has rested too long.
	idle *time.Timer
}

// Read reads no more than an answer may have.
func (c *conn) Read(into []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	n, err := c.Conn.Read(into[:min(int64(len(into)), c.left)])
	c.left -= int64(n)
	return n, err
}

func newHTTPTransport(addresses []address, config *tls.Config, token func() string, connect time.Duration) *httpTransport {
	return &httpTransport{
		addresses: addresses, tls: config, token: token, connectTimeout: connect,
		open: map[*conn]bool{}, kept: make([][]*conn, len(addresses)),
	}
}

// ask sends one request to one endpoint, and returns its whole answer.
func (t *httpTransport) ask(ctx context.Context, endpoint int, r *request) (*answer, error) {
	t.mu.Lock()
	if t.isClosed {
		t.mu.Unlock()
		return nil, errTransportEnded
	}
	t.active.Add(1)
	t.mu.Unlock()
	defer t.active.Done()

	return t.send(ctx, endpoint, r)
}

func (t *httpTransport) send(ctx context.Context, endpoint int, r *request) (*answer, error) {
	if c := t.takeKept(endpoint); c != nil {
		a, hasBegun, err := t.roundTrip(ctx, c, endpoint, r)
		if err == nil || hasBegun || ctx.Err() != nil {
			return a, err
		}
		t.closeKept(endpoint)
	}
	c, err := t.connect(ctx, t.addresses[endpoint])
	if err != nil {
		return nil, err
	}
	a, _, err := t.roundTrip(ctx, c, endpoint, r)
	return a, err
}

func (t *httpTransport) connect(ctx context.Context, to address) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.connectTimeout)
	defer cancel()
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", to.dial)
	if err != nil {
		return nil, err
	}
	if to.isTLS {
		config := t.tls.Clone()
		if config.ServerName == "" {
			config.ServerName = to.host
		}
		secure := tls.Client(raw, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		raw = secure
	}
	c := &conn{Conn: raw}
	c.reader = bufio.NewReader(c)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isClosed {
		raw.Close()
		return nil, errTransportEnded
	}
	t.open[c] = true
	return c, nil
}

// roundTrip sends the request and reads the whole answer. The connection is kept
// if both went well, and ended otherwise, so that no late answer has a place to
// arrive at. hasBegun is whether the head of an answer has arrived.
func (t *httpTransport) roundTrip(ctx context.Context, c *conn, endpoint int, r *request) (a *answer, hasBegun bool, err error) {
	interrupt := func() { _ = c.SetDeadline(time.Unix(1, 0)) }
	stop := context.AfterFunc(ctx, interrupt)
	a, hasBegun, mayKeep, err := t.exchange(c, endpoint, r)
	if !stop() {
		// The deadline of the connection may be over at any time.
		mayKeep = false
	}
	if mayKeep {
		t.keep(endpoint, c)
	} else {
		t.end(c)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return a, hasBegun, err
}

func (t *httpTransport) exchange(c *conn, endpoint int, r *request) (a *answer, hasBegun, mayKeep bool, err error) {
	c.left = headBytesMax + answerBytesMax
	if _, err := c.Write(t.head(endpoint, r)); err != nil {
		return nil, false, false, err
	}
	asked := &http.Request{Method: r.method}
	var response *http.Response
	for informal := 0; ; informal++ {
		response, err = http.ReadResponse(c.reader, asked)
		if err != nil {
			return nil, false, false, fmt.Errorf("no answer: %w", err)
		}
		if response.StatusCode >= 200 {
			break
		}
		if informal == informalMax || response.StatusCode == http.StatusSwitchingProtocols {
			return nil, true, false, errors.New("no answer that HTTP allows")
		}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax+1))
	if err == nil && len(body) > answerBytesMax {
		err = errTooLong
	}
	if err != nil {
		return nil, true, false, fmt.Errorf("the answer broke off: %w", err)
	}
	a = &answer{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"), body: body}
	return a, true, !response.Close && c.reader.Buffered() == 0, nil
}

func (t *httpTransport) head(endpoint int, r *request) []byte {
	head := make([]byte, 0, 512)
	head = fmt.Appendf(head, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.method, r.path, t.addresses[endpoint].authority)
	head = append(head, "Accept: application/json\r\nCache-Control: no-store\r\nUser-Agent: mintleaf-go/"+Version+"\r\n"...)
	if token := t.token(); token != "" {
		head = fmt.Appendf(head, "Authorization: Bearer %s\r\n", token)
	}
	if r.body != "" {
		head = fmt.Appendf(head, "Content-Type: application/json\r\n")
	}
	if r.method != http.MethodGet {
		head = fmt.Appendf(head, "Content-Length: %d\r\n", len(r.body))
	}
	return append(append(head, "\r\n"...), r.body...)
}

// takeKept returns the connection that rested for the shortest time, if there is one.
func (t *httpTransport) takeKept(endpoint int) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept[endpoint]
	for len(kept) > 0 {
		c := kept[len(kept)-1]
		kept = kept[:len(kept)-1]
		t.kept[endpoint] = kept
		if c.idle.Stop() {
			return c
		}
		// Its time is over: its timer waits for the lock to end it.
	}
	return nil
}

func (t *httpTransport) keep(endpoint int, c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isClosed || len(t.kept[endpoint]) == keptMax {
		t.endLocked(c)
		return
	}
	t.kept[endpoint] = append(t.kept[endpoint], c)
	c.idle = time.AfterFunc(idleMax, func() { t.expire(endpoint, c) })
}

// expire ends a connection that has rested too long.
func (t *httpTransport) expire(endpoint int, c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.kept[endpoint]
	for i, other := range kept {
		if other == c {
			t.kept[endpoint] = append(kept[:i:i], kept[i+1:]...)
		}
	}
	t.endLocked(c)
}

// closeKept ends the kept connections to an endpoint that has closed one.
func (t *httpTransport) closeKept(endpoint int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.kept[endpoint] {
		t.endLocked(c)
	}
	t.kept[endpoint] = nil
}

func (t *httpTransport) end(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endLocked(c)
}

func (t *httpTransport) endLocked(c *conn) {
	if c.idle != nil {
		c.idle.Stop()
	}
	delete(t.open, c)
	// TLS would say goodbye first, and wait for that.
	if secure, ok := c.Conn.(*tls.Conn); ok {
		secure.NetConn().Close()
		return
	}
	c.Close()
}

// close ends all connections, and waits for the requests that this ends.
func (t *httpTransport) close() {
	t.mu.Lock()
	t.isClosed = true
	for c := range t.open {
		t.endLocked(c)
	}
	t.mu.Unlock()
	t.active.Wait()
}
