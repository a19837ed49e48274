package mintleaf

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Version is that of Mintleaf, and of this client.
const Version = "0.3.0-dev"

const (
	// The most tags whose ids are kept. Calls for others each send their own request.
	linesMax      = 10_000
	leaseMax      = 1_000_000
	snowflakesMax = 100_000
)

// Config is what a client needs to know. Only Endpoints is required.
type Config struct {
	// Endpoints are the base addresses of nodes, such as http://a:8080.
	Endpoints []string
	// Token is shown to nodes that have an auth file. TokenFile names a file with it, which is read again when it changes.
	Token, TokenFile string
	// Zone is the client's zone: nodes of it are asked first.
	Zone string
	// CAFile is a PEM file of the CAs of the nodes' certificates. TLS is for all else; CAFile is added to it.
	CAFile string
	TLS    *tls.Config
	// Timeout is how long a call waits, 10 s by default.
	Timeout time.Duration
	// AttemptTimeout is how long one request may take, 2.5 s by default: longer than a node waits for ids.
	AttemptTimeout time.Duration
	// ConnectTimeout is how long a connection may take to be made, 1 s by default.
	ConnectTimeout time.Duration
	// LeaseMax is the most ids of one lease, 1 to 1,000,000, the default.
	LeaseMax int
	// Logger is told when no node answers, and when one answers again.
	Logger *slog.Logger
}

// Client takes ids from a cluster. Any number of goroutines may share it.
type Client struct {
	cfg         Config
	tags, flake kind
	began       time.Time
	endpoints   *endpoints
	transport   *httpTransport
	requests    chan struct{}
	// The context of everything that runs in the background.
	ctx     context.Context
	cancel  context.CancelFunc
	flights sync.WaitGroup
	away    atomic.Bool

	counters struct{ requests, failures, leases, leasedIDs, waits atomic.Uint64 }
	// The line of the first tag, which most programs use most, and all lines by tag.
	first      atomic.Pointer[line]
	lines      sync.Map
	snowflakes *line

	closing sync.Once
	mu      sync.Mutex
	held    int // lines of tags
	loose   int // calls without a line that wait now
	workers map[*WorkerLease]bool
	closed  bool
}

// Registration is the number of a key of a register.
type Registration struct {
	// ID is the number.
	ID int64
	// Text is the number as the register writes it, such as INV-2026-000017.
	Text string
	// Period is the period that it belongs to, empty where the register has none.
	Period string
	// New is whether this call gave the key its number.
	New bool
}

// Stats are counters of a client since it was made, for a collector of metrics.
type Stats struct {
	// Requests is how many requests were sent, Failures how many of them failed at their endpoint.
	Requests, Failures uint64
	// Leases is how many leases arrived, LeasedIDs how many ids were in them.
	Leases, LeasedIDs uint64
	// Waits is how many calls found too few ids held.
	Waits uint64
	// Tags is how many tags are leased or known.
	Tags int
}

// New makes a client. It connects to no node yet.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.checked()
	if err != nil {
		return nil, err
	}
	addresses := make([]address, 0, len(cfg.Endpoints))
	for _, endpoint := range cfg.Endpoints {
		at, err := parseAddress(endpoint)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, at)
	}
	token, err := cfg.tokens()
	if err != nil {
		return nil, err
	}
	c := &Client{
		cfg:       cfg,
		tags:      kind{first: 100, min: 10, max: int64(cfg.LeaseMax), lasts: 10 * time.Second},
		flake:     kind{first: 1, min: 1, max: min(int64(cfg.LeaseMax), snowflakesMax), lasts: time.Second / 2, freshFor: time.Second, isLeased: true},
		began:     time.Now(),
		endpoints: newEndpoints(len(cfg.Endpoints)),
		requests:  make(chan struct{}, requestsMax),
		workers:   make(map[*WorkerLease]bool),
	}
	c.transport = newHTTPTransport(addresses, cfg.TLS, token.token, cfg.ConnectTimeout)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.snowflakes = newLine(c, "", &c.flake)
	if cfg.Zone != "" {
		c.flights.Add(1)
		go c.watchZones()
	}
	return c, nil
}

// Format prints the nodes, whatever the verb: the fields have the token.
func (c *Client) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "client of %v", c.cfg.Endpoints) }

func (cfg Config) checked() (Config, error) {
	if len(cfg.Endpoints) == 0 {
		return cfg, invalid("Endpoints names no node")
	}
	for _, timeout := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{
		{"Timeout", &cfg.Timeout, 10 * time.Second},
		{"AttemptTimeout", &cfg.AttemptTimeout, 2500 * time.Millisecond},
		{"ConnectTimeout", &cfg.ConnectTimeout, time.Second},
	} {
		if *timeout.value == 0 {
			*timeout.value = timeout.standard
		}
		if *timeout.value < time.Millisecond || *timeout.value > 24*time.Hour {
			return cfg, invalid("%s must be 1 ms to a day", timeout.name)
		}
	}
	if cfg.LeaseMax == 0 {
		cfg.LeaseMax = leaseMax
	}
	if cfg.LeaseMax < 1 || cfg.LeaseMax > leaseMax {
		return cfg, invalid("LeaseMax must be 1 to %d", leaseMax)
	}
	if cfg.TLS == nil {
		cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	cfg.TLS = cfg.TLS.Clone()
	cfg.TLS.NextProtos = []string{"http/1.1"}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return cfg, fmt.Errorf("%w: %w", ErrInvalidArgument, err)
		}
		cfg.TLS.RootCAs = x509.NewCertPool()
		if !cfg.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return cfg, invalid("%s holds no certificate", cfg.CAFile)
		}
	}
	return cfg, nil
}

// now is the client's clock: monotonic, and 0 when the client was made.
func (c *Client) now() time.Duration { return time.Since(c.began) }

// NextID returns the next id of a tag. No other caller gets it. A held id is returned whatever ctx says.
func (c *Client) NextID(ctx context.Context, tag string) (int64, error) {
	l := c.first.Load()
	if l == nil || l.tag != tag {
		l = c.find(tag)
	}
	if l != nil {
		if ids, ok := l.take(1); ok {
			return int64(ids.start), nil
		}
	}
	return c.nextID(ctx, tag)
}

// find returns the line of a tag, if it has one.
func (c *Client) find(tag string) *line {
	if l, ok := c.lines.Load(tag); ok {
		return l.(*line)
	}
	return nil
}

func (c *Client) nextID(ctx context.Context, tag string) (int64, error) {
	ids, reply, err := c.takeOrWait(ctx, tag, 1)
	if err != nil {
		return 0, err
	}
	if len(ids) > 0 {
		return int64(ids[0].start), nil
	}
	return reply.one()
}

// NextIDs returns count ids of a tag, 1 to 10,000. They need not be consecutive. Ids taken before an error are wasted.
func (c *Client) NextIDs(ctx context.Context, tag string, count int) ([]int64, error) {
	if count < 1 || count > countMax {
		return nil, invalid("count must be 1 to %d", countMax)
	}
	ranges, reply, err := c.takeOrWait(ctx, tag, int64(count))
	if err != nil {
		return nil, err
	}
	ids := make([]int64, 0, count)
	for _, r := range ranges {
		for id := r.start; id < r.end; id++ {
			ids = append(ids, int64(id))
		}
	}
	for _, text := range reply.ids {
		id, isNumber := number(text)
		if !isNumber {
			return nil, notANumber(text)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// NextText returns the next id of a tag as the cluster writes it: INV-2026-000017 for a tag with a format, the decimal
// number for any other.
func (c *Client) NextText(ctx context.Context, tag string) (string, error) {
	ids, reply, err := c.takeOrWait(ctx, tag, 1)
	if err != nil {
		return "", err
	}
	if len(ids) > 0 {
		return strconv.FormatUint(ids[0].start, 10), nil
	}
	return reply.ids[0], nil
}

// NextSnowflake returns a snowflake id, not more than a second old.
func (c *Client) NextSnowflake(ctx context.Context) (int64, error) {
	if ids, ok := c.snowflakes.take(1); ok {
		return int64(ids.start), nil
	}
	reply, err := c.snowflakes.want(ctx, 1, nil)
	if err != nil {
		return 0, err
	}
	if len(reply.ranges) > 0 {
		return int64(reply.ranges[0].start), nil
	}
	return reply.one()
}

// NextNumber returns the next number of a key of a sequence. Each call sends a request.
func (c *Client) NextNumber(ctx context.Context, tag, key string) (int64, error) {
	if err := checkKeyed(tag, key); err != nil {
		return 0, err
	}
	o, err := c.askLoose(ctx, numberRequest(tag, key))
	if err != nil {
		return 0, err
	}
	if o.kind != gotIDs {
		return 0, o.error(ctx)
	}
	return callReply{ids: o.ids}.one()
}

// Register returns the number of a key of a register: the one that it has, or else the next. Both last for ever, so a
// call that failed may be made again.
func (c *Client) Register(ctx context.Context, tag, key string) (Registration, error) {
	if err := checkKeyed(tag, key); err != nil {
		return Registration{}, err
	}
	o, err := c.askLoose(ctx, registerRequest(tag, key))
	if err != nil {
		return Registration{}, err
	}
	if o.kind != gotRegistration {
		return Registration{}, o.error(ctx)
	}
	return o.registered, nil
}

// askLoose sends the request of a call without a line.
func (c *Client) askLoose(ctx context.Context, r *request) (outcome, error) {
	c.counters.waits.Add(1)
	if err := c.enter(); err != nil {
		return outcome{}, err
	}
	defer c.leave()
	return c.ask(ctx, r, c.now()+c.cfg.Timeout, nil), nil
}

func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.loose >= callsMax:
		return ErrOverloaded
	}
	c.loose++
	return nil
}

func (c *Client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.loose--
}

// takeOrWait returns held ids, or waits for what is missing.
func (c *Client) takeOrWait(ctx context.Context, tag string, count int64) ([]idRange, callReply, error) {
	l, err := c.line(tag)
	if err != nil {
		return nil, callReply{}, err
	}
	if l == nil {
		o, err := c.askLoose(ctx, idsRequest(tag, count, false))
		if err == nil && o.kind != gotIDs {
			err = o.error(ctx)
		}
		return nil, callReply{ids: o.ids}, err
	}
	var got []idRange
	if ids, ok := l.take(count); ok {
		got = append(got, ids)
		if ids.len() == count {
			return got, callReply{}, nil
		}
	}
	reply, err := l.want(ctx, count, got)
	return reply.ranges, reply, err
}

// line returns the line of a tag, nil where there are too many.
func (c *Client) line(tag string) (*line, error) {
	if l := c.find(tag); l != nil {
		return l, nil
	}
	if err := checkName("tag", tag); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	if l := c.find(tag); l != nil || c.held == linesMax {
		return l, nil
	}
	c.held++
	// The caller's tag may be a part of a long text, which must not stay for its sake.
	tag = strings.Clone(tag)
	l := newLine(c, tag, &c.tags)
	c.lines.Store(tag, l)
	c.first.CompareAndSwap(nil, l)
	return l, nil
}

func (r callReply) one() (int64, error) {
	if len(r.ids) == 0 {
		return 0, unavailable(errNotUnderstood.Error())
	}
	id, isNumber := number(r.ids[0])
	if !isNumber {
		return 0, notANumber(r.ids[0])
	}
	return id, nil
}

func notANumber(text string) error { return fmt.Errorf("%w; this one was %q", ErrNotANumber, text) }

// Stats returns the counters of this moment.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{
		Requests: c.counters.requests.Load(), Failures: c.counters.failures.Load(),
		Leases: c.counters.leases.Load(), LeasedIDs: c.counters.leasedIDs.Load(),
		Waits: c.counters.waits.Load(), Tags: c.held,
	}
}

// Close ends every call, wastes what is held, and gives worker leases back, for which it waits for one attempt at most.
// When it returns, no goroutine and no connection of the client is left. A second Close waits for the first.
func (c *Client) Close() { c.closing.Do(c.close) }

func (c *Client) close() {
	c.mu.Lock()
	c.closed = true
	var giving sync.WaitGroup
	for w := range c.workers {
		giving.Add(1)
		go func() {
			defer giving.Done()
			w.Close()
		}()
	}
	c.mu.Unlock()
	c.snowflakes.close()
	c.lines.Range(func(_, l any) bool {
		l.(*line).close()
		return true
	})
	// No call and no flight waits until the leases are given back.
	c.cancel()
	giving.Wait()
	c.transport.close()
	c.flights.Wait()
}
