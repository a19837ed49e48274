package mintleaf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

const (
	requestsMax    = 64
	answerBytesMax = 1 << 20
	// Less than the 75 s of a node.
	keptMax = 60 * time.Second
	zones   = 60 * time.Second
	// How often the file of the token is looked at.
	tokenEvery = 5 * time.Second
)

// ask asks one endpoint after another until one answers or the deadline passes. l is the line, if there is one: it is told
// of failed attempts, and knows where a rate limit is used up.
func (c *Client) ask(ctx context.Context, r *request, deadline time.Duration, l *line) outcome {
	last := unavailable("no attempt was made in time")
	endpoint, at, isPinned := 0, time.Duration(0), false
	if l != nil {
		endpoint, at, isPinned = l.limited(c.now())
	}
	for isFirst := true; ; isFirst = false {
		if !isPinned {
			endpoint, at = c.endpoints.pick(c.now())
			if isFirst {
				at = c.now()
			}
		}
		isPinned = false
		if !c.sleepUntil(ctx, min(at, deadline)) {
			return outcome{kind: gotTimeUp, err: c.ended(ctx)}
		}
		if c.now() >= deadline {
			return outcome{kind: gotTimeUp, err: last}
		}
		o := c.attempt(ctx, endpoint, r, deadline)
		switch o.kind {
		case gotTimeUp:
			return o
		case gotRateLimited:
			at, isPinned = c.now()+o.wait, true
			if l != nil {
				l.rateLimited(endpoint, at)
			}
			last = o.refused
		case gotFailure:
			last = unavailable(o.err.Error())
		default:
			return o
		}
		if l != nil {
			l.hasMet(last)
		}
	}
}

// ended says why a call ends before its deadline.
func (c *Client) ended(ctx context.Context) error {
	if c.ctx.Err() != nil {
		return ErrClosed
	}
	return ctx.Err()
}

// error is the error of a call whose request had another outcome than it asked for.
func (o outcome) error(context.Context) error {
	switch {
	case o.kind == gotRefusal:
		return o.refused
	case o.err != nil:
		return o.err
	default:
		return unavailable(errNotUnderstood.Error())
	}
}

// sleepUntil reports whether the time came before the context, or the client, ended.
func (c *Client) sleepUntil(ctx context.Context, at time.Duration) bool {
	wait := at - c.now()
	if wait <= 0 {
		return ctx.Err() == nil && c.ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.ctx.Done():
	}
	return false
}

// attempt is one attempt. Its outcome is noted for the endpoint.
func (c *Client) attempt(ctx context.Context, endpoint int, r *request, deadline time.Duration) outcome {
	// Closing the client ends requests under way.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	left := deadline - c.now()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case c.requests <- struct{}{}:
		defer func() { <-c.requests }()
	case <-timer.C:
		return outcome{kind: gotFailure, err: fmt.Errorf("%d requests are under way already", requestsMax)}
	case <-ctx.Done():
		return outcome{kind: gotTimeUp, err: c.ended(ctx)}
	}
	c.counters.requests.Add(1)
	end := c.now() + c.cfg.AttemptTimeout
	timed, stop := context.WithTimeout(ctx, min(c.cfg.AttemptTimeout, deadline-c.now()))
	defer stop()
	a, err := c.send(timed, endpoint, r)
	switch {
	case err == nil:
		o := read(r, a)
		if o.kind == gotFailure {
			c.failed(endpoint, o.wait, o.err)
		} else {
			c.answered(endpoint)
		}
		return o
	case ctx.Err() != nil:
		return outcome{kind: gotTimeUp, err: c.ended(ctx)}
	case timed.Err() != nil && end > deadline:
		// The endpoint is not to blame when the call's own deadline passes.
		return outcome{kind: gotFailure, err: errors.New("no answer yet")}
	case timed.Err() != nil:
		err = fmt.Errorf("no answer within %v", c.cfg.AttemptTimeout)
	}
	c.failed(endpoint, 0, err)
	return outcome{kind: gotFailure, err: err}
}

func (c *Client) failed(endpoint int, asked time.Duration, err error) {
	c.counters.failures.Add(1)
	if c.endpoints.failed(endpoint, c.now(), asked) && c.away.CompareAndSwap(false, true) && c.cfg.Logger != nil {
		c.cfg.Logger.Warn("no node answers; held ids go on", "endpoint", c.cfg.Endpoints[endpoint], "error", err)
	}
}

func (c *Client) answered(endpoint int) {
	c.endpoints.answered(endpoint)
	if c.away.CompareAndSwap(true, false) && c.cfg.Logger != nil {
		c.cfg.Logger.Info("a node answers again", "endpoint", c.cfg.Endpoints[endpoint])
	}
}

// send sends a request and reads the answer to its end. If a request on a kept connection fails before the head of an
// answer, the kept connections are closed and it is tried once more, on a new one.
func (c *Client) send(ctx context.Context, endpoint int, r *request) (*answer, error) {
	a, wasKept, err := c.sendOnce(ctx, endpoint, r)
	if err != nil && wasKept && ctx.Err() == nil {
		c.transports[endpoint].CloseIdleConnections()
		a, _, err = c.sendOnce(ctx, endpoint, r)
	}
	return a, err
}

// sendOnce reports as well whether it failed on a kept connection before the head of an answer.
func (c *Client) sendOnce(ctx context.Context, endpoint int, r *request) (*answer, bool, error) {
	var isKept atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { isKept.Store(info.Reused) },
	})
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	request, err := http.NewRequestWithContext(ctx, r.method, c.cfg.Endpoints[endpoint]+r.path, body)
	if err != nil {
		return nil, false, err
	}
	// The transport sends no request twice by itself: a second attempt is this client's.
	request.GetBody = nil
	h := request.Header
	h.Set("Accept", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("User-Agent", "mintleaf-go")
	if r.body != "" {
		h.Set("Content-Type", "application/json")
	}
	if token := c.token(); token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	response, err := c.transports[endpoint].RoundTrip(request)
	if err != nil {
		return nil, isKept.Load(), err
	}
	defer response.Body.Close()
	if response.ContentLength < 0 && len(response.TransferEncoding) == 0 {
		return nil, false, errors.New("the answer does not say how long it is")
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax+1))
	if err != nil {
		return nil, false, err
	}
	if len(content) > answerBytesMax {
		return nil, false, fmt.Errorf("the answer is longer than %d bytes", answerBytesMax)
	}
	return &answer{status: response.StatusCode, retryAfter: response.Header.Get("Retry-After"), body: content}, false, nil
}

func newTransport(cfg *Config) *http.Transport {
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout}
	return &http.Transport{
		DialContext:         dialer.DialContext,
		TLSClientConfig:     cfg.TLS.Clone(),
		TLSHandshakeTimeout: cfg.ConnectTimeout,
		DisableCompression:  true,
		MaxIdleConnsPerHost: requestsMax,
		IdleConnTimeout:     keptMax,
	}
}

// token returns the token, which may stand in a file that changes.
func (c *Client) token() string {
	if c.cfg.TokenFile == "" {
		return c.cfg.Token
	}
	c.tokenMu.Lock()
	defer c.tokenMu.Unlock()
	if now := c.now(); c.tokenRead == "" || now-c.tokenReadAt >= tokenEvery {
		// A file that cannot be read at this moment changes nothing.
		if content, err := os.ReadFile(c.cfg.TokenFile); err == nil {
			c.tokenRead = strings.TrimSpace(string(content))
		}
		c.tokenReadAt = now
	}
	return c.tokenRead
}

// watchZones asks every endpoint for its zone, again and again. A zone stays as it was when no answer comes.
func (c *Client) watchZones() {
	defer c.flights.Done()
	for {
		for endpoint := range c.cfg.Endpoints {
			ctx, cancel := context.WithTimeout(c.ctx, c.cfg.AttemptTimeout)
			a, err := c.send(ctx, endpoint, &request{kind: askCluster, method: "GET", path: "/v1/cluster"})
			cancel()
			if err == nil && a.status == http.StatusOK {
				c.endpoints.setInZone(endpoint, zone(a) == c.cfg.Zone)
			}
		}
		pause := time.Duration(float64(zones) * (0.9 + c.endpoints.rand()/5))
		if !c.sleepUntil(c.ctx, c.now()+pause) {
			return
		}
	}
}
