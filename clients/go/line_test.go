package mintleaf

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// Each flight that is used by none makes the next lease smaller.
func TestNoFlightBeginsForACallWhoseTimeIsOver(t *testing.T) {
	var away atomic.Bool
	counts, _ := counting(t)
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		counts.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(node.Close)
	c := client(t, Config{Endpoints: []string{node.URL}, Timeout: 300 * time.Millisecond})
	for range 2_000 {
		_, err := c.NextIDs(context.Background(), "orders", 100)
		must(t, err)
	}
	l, err := c.line("orders")
	must(t, err)
	l.mu.Lock()
	before := l.sizing.last
	l.mu.Unlock()
	away.Store(true)
	for err == nil {
		_, err = c.NextIDs(context.Background(), "orders", 10_000)
	}
	if !errors.Is(err, ErrUnavailable) {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	// One flight for the lease ahead, and one for the call.
	if after := l.sizing.last; after < before/16 {
		t.Errorf("the last size fell from %d to %d", before, after)
	}
}
