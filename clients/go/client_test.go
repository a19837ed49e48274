package mintleaf

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// counting is a node that counts the ids of every tag up from 1.
func counting(t testing.TB) (*httptest.Server, *atomic.Int64) {
	var last, requests atomic.Int64
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		count, _ := strconv.ParseInt(r.URL.Query().Get("count"), 10, 64)
		end := last.Add(count) + 1
		if r.URL.Query().Get("format") == "ranges" {
			fmt.Fprintf(w, `{"ranges":[{"start":"%d","end":"%d"}]}`, end-count, end)
			return
		}
		fmt.Fprint(w, `{"ids":[`)
		for id := end - count; id < end; id++ {
			if id > end-count {
				fmt.Fprint(w, ",")
			}
			fmt.Fprintf(w, `"%d"`, id)
		}
		fmt.Fprint(w, `]}`)
	}))
	t.Cleanup(node.Close)
	return node, &requests
}

func client(t testing.TB, cfg Config) *Client {
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestManyGoroutinesGetEveryIDOnce(t *testing.T) {
	node, requests := counting(t)
	c := client(t, Config{Endpoints: []string{node.URL}})
	const goroutines, each = 8, 50_000
	seen := make([]atomic.Bool, 4*goroutines*each)
	var all sync.WaitGroup
	for range goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			last := int64(0)
			for i := 0; i < each; i++ {
				ids := []int64{0}
				var err error
				if i%100 == 0 {
					ids, err = c.NextIDs(context.Background(), "orders", 7)
				} else {
					ids[0], err = c.NextID(context.Background(), "orders")
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, id := range ids {
					if id <= last {
						t.Errorf("%d is not above %d", id, last)
					}
					last = id
					if seen[id].Swap(true) {
						t.Errorf("%d came twice", id)
					}
				}
			}
		}()
	}
	all.Wait()
	if sent := requests.Load(); sent > 40 {
		t.Errorf("%d requests", sent)
	}
}

func TestHandlesAndCallsShareALease(t *testing.T) {
	node, _ := counting(t)
	c := client(t, Config{Endpoints: []string{node.URL}, LeaseMax: 1_000})
	const goroutines, each = 6, 20_000
	given := make(chan []int64, goroutines)
	for caller := range goroutines {
		go func() {
			orders, list := c.Tag("orders"), make([]int64, 0, each+7)
			for len(list) < each {
				var ids []int64
				var id int64
				var err error
				switch caller % 3 {
				case 0:
					id, err = orders.Next(context.Background())
					ids = []int64{id}
				case 1:
					ids, err = c.NextIDs(context.Background(), "orders", 7)
				default:
					id, err = c.NextID(context.Background(), "orders")
					ids = []int64{id}
				}
				if err != nil {
					t.Error(err)
					break
				}
				if len(list) > 0 && ids[0] <= list[len(list)-1] {
					t.Errorf("%d after %d", ids[0], list[len(list)-1])
				}
				list = append(list, ids...)
			}
			given <- list
		}()
	}
	seen, highest := map[int64]bool{}, int64(0)
	for range goroutines {
		for _, id := range <-given {
			if seen[id] {
				t.Fatalf("%d twice", id)
			}
			seen[id], highest = true, max(highest, id)
		}
	}
	// What is missing was left in the two handles, or is still held.
	if missing := highest - int64(len(seen)); missing > 2*125+1_000 {
		t.Errorf("%d of %d are missing", missing, highest)
	}
	orders := c.Tag("orders")
	_, err := orders.Next(context.Background())
	must(t, err)
	c.Close()
	for range 125 {
		_, err = orders.Next(context.Background())
	}
	if !errors.Is(err, ErrClosed) {
		t.Errorf("behind its block a handle of a closed client says %v", err)
	}
	if _, err := c.Tag("").Next(context.Background()); !errors.Is(err, ErrInvalidArgument) {
		t.Errorf("an empty tag: %v", err)
	}
}

func TestSizesFollowUse(t *testing.T) {
	tags := kind{first: 100, min: 10, max: 1_000_000, lasts: 10 * time.Second}
	for _, test := range []struct {
		max   int64
		uses  [][2]float64 // how many seconds a lease lasted, and how many ids were used
		sizes []int64
	}{
		{1_000_000, [][2]float64{{1, 30}, {5, 150}, {5, 150}}, []int64{100, 300, 300, 300}},
		{1_000_000, [][2]float64{{0, 50}, {0.001, 400}, {0.001, 1_600}, {0.001, 6_400}}, []int64{100, 400, 1_600, 6_400, 25_600}},
		{1_000_000, [][2]float64{{60, 50}, {60, 13}, {3600, 5}}, []int64{100, 25, 10, 10}},
		{5, [][2]float64{{0, 50}}, []int64{5, 5}},
	} {
		k := tags
		k.max = test.max
		s, now := sizing{kind: &k}, 77*time.Second
		sizes := []int64{s.next(now, 0, 0)}
		for _, use := range test.uses {
			now += time.Duration(use[0] * float64(time.Second))
			sizes = append(sizes, s.next(now, int64(use[1]), 0))
		}
		if fmt.Sprint(sizes) != fmt.Sprint(test.sizes) {
			t.Errorf("%v, not %v", sizes, test.sizes)
		}
	}
	s := sizing{kind: &tags}
	if size := s.next(0, 0, 5_000); size != 5_100 {
		t.Errorf("what calls wait for is added: %d", size)
	}
	s.countMax = 50
	if size := s.next(0, 0, 5_000); size != 50 {
		t.Errorf("a node allows 50: %d", size)
	}
	s.halve()
	if size := s.next(time.Millisecond, 10_000, 0); size != 100 {
		t.Errorf("a rate limit halves: %d", size)
	}
}

func TestRestsGrowAndEnd(t *testing.T) {
	e, now := newEndpoints(1), time.Second
	for _, longest := range []time.Duration{50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000} {
		longest *= time.Millisecond
		e.failed(0, now, 0)
		_, until := e.pick(now)
		if rest := until - now; rest < longest/2 || rest > longest {
			t.Fatalf("%v of %v", rest, longest)
		}
		now = until
	}
	e.answered(0)
	e.failed(0, now, 0)
	if _, until := e.pick(now); until-now > 50*time.Millisecond {
		t.Fatalf("%v after an answer", until-now)
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	before := runtime.NumGoroutine()
	c := client(t, Config{Endpoints: []string{silent.URL}, Zone: "a"})
	failed := make(chan error)
	go func() {
		_, err := c.NextID(context.Background(), "orders")
		failed <- err
	}()
	time.Sleep(50 * time.Millisecond)
	c.Close()
	if err := <-failed; !errors.Is(err, ErrClosed) {
		t.Errorf("the call ends with %v", err)
	}
	silent.CloseClientConnections()
	for i := 0; runtime.NumGoroutine() > before && i < 100; i++ {
		time.Sleep(20 * time.Millisecond)
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

// hanging is a node that grants leases of worker ids, and answers nothing else until it is released.
func hanging(t *testing.T) (node *httptest.Server, asked <-chan string, release func()) {
	requests, released := make(chan string, 10), make(chan struct{})
	node = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Path == "/v1/pools/shops/leases" {
			fmt.Fprint(w, `{"worker_id":17,"lease":"17-1","from_ms":"1800000000000","until_ms":"1800000060000"}`)
			return
		}
		select {
		case requests <- r.Method:
		default:
		}
		select {
		case <-released:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(node.Close)
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	return node, requests, release
}

func TestASecondCloseWaitsForTheFirst(t *testing.T) {
	node, asked, release := hanging(t)
	c, err := New(Config{Endpoints: []string{node.URL}, AttemptTimeout: time.Minute, Timeout: time.Minute})
	must(t, err)
	lease, err := c.LeaseWorker(context.Background(), "shops")
	must(t, err)
	go c.Close()
	<-asked // The first gives the lease back.
	ended := make(chan string, 2)
	go func() {
		c.Close()
		ended <- "client"
	}()
	go func() {
		lease.Close()
		ended <- "lease"
	}()
	left := 2
	select {
	case which := <-ended:
		t.Errorf("a second Close of the %s ends before the first", which)
		left--
	case <-time.After(200 * time.Millisecond):
	}
	release()
	for range left {
		<-ended
	}
	c.transport.mu.Lock()
	defer c.transport.mu.Unlock()
	if !c.transport.isClosed || len(c.transport.open) > 0 {
		t.Errorf("%d connections are open", len(c.transport.open))
	}
}

func TestCloseEndsCallsBeforeItGivesLeasesBack(t *testing.T) {
	node, asked, release := hanging(t)
	c, err := New(Config{Endpoints: []string{node.URL}, AttemptTimeout: time.Minute, Timeout: time.Minute})
	must(t, err)
	_, err = c.LeaseWorker(context.Background(), "shops")
	must(t, err)
	failed := make(chan error, 1)
	go func() {
		_, err := c.Register(context.Background(), "book", "order-1")
		failed <- err
	}()
	<-asked
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		c.Close()
	}()
	select {
	case err := <-failed:
		if !errors.Is(err, ErrClosed) {
			t.Errorf("the call ends with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("the call waits until the lease is given back")
	}
	release()
	<-closed
}

func TestAZoneStaysAsLastKnown(t *testing.T) {
	var status atomic.Int64
	var body atomic.Value
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		fmt.Fprint(w, body.Load())
	}))
	t.Cleanup(node.Close)
	c := client(t, Config{Endpoints: []string{node.URL}})
	c.cfg.Zone = "b"
	for _, answer := range []struct {
		status   int64
		body     string
		isInZone bool
	}{
		{200, `{"node_id":2,"nodes":[{"id":1,"zone":"a"},{"id":2,"zone":"b"}]}`, true},
		{403, `{"code":"forbidden"}`, true},
		{200, `<html>`, true},
		{200, `{}`, true},
		{200, `{"node_id":3,"nodes":[{"id":2,"zone":"a"}]}`, true},
		{200, `{"node_id":2,"nodes":[{"id":2}]}`, false},
		{503, ``, false},
	} {
		status.Store(answer.status)
		body.Store(answer.body)
		c.askZone(0)
		if c.endpoints.order[0].inZone != answer.isInZone {
			t.Errorf("after %d %s", answer.status, answer.body)
		}
	}
}

func TestCloseLeavesNoConnection(t *testing.T) {
	open, gone := 0, make(chan struct{}, 1)
	var mu sync.Mutex
	node := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"ids":["1"],"lease":false}`)
	}))
	node.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch state {
		case http.StateNew:
			open++
		case http.StateClosed:
			if open--; open == 0 {
				select {
				case gone <- struct{}{}:
				default:
				}
			}
		}
	}
	node.Start()
	defer node.Close()
	for range 20 {
		c := client(t, Config{Endpoints: []string{node.URL}})
		var all sync.WaitGroup
		for range 16 {
			all.Add(1)
			go func() {
				defer all.Done()
				for {
					if _, err := c.NextID(context.Background(), "strict"); err != nil {
						return
					}
				}
			}()
		}
		time.Sleep(5 * time.Millisecond)
		c.Close()
		all.Wait()
	}
	for {
		select {
		case <-gone:
			mu.Lock()
			left := open
			mu.Unlock()
			if left == 0 {
				return
			}
		case <-time.After(5 * time.Second):
			mu.Lock()
			defer mu.Unlock()
			t.Fatalf("%d connections are open after Close", open)
		}
	}
}

func TestACAFileIsWhatATLSNodeIsTrustedBy(t *testing.T) {
	node := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"ids":["1"],"lease":false}`)
	}))
	defer node.Close()
	node.Config.ErrorLog = log.New(io.Discard, "", 0)
	file := filepath.Join(t.TempDir(), "ca.pem")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: node.Certificate().Raw}
	must(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	for range 3 {
		c := client(t, Config{Endpoints: []string{node.URL}, CAFile: file})
		for range 3 {
			_, err := c.NextNumber(context.Background(), "chat", "room")
			must(t, err)
		}
		c.Close()
	}
	stranger := client(t, Config{Endpoints: []string{node.URL}, Timeout: 300 * time.Millisecond})
	if _, err := stranger.NextNumber(context.Background(), "chat", "room"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without the CA: %v", err)
	}
}

func TestStatsCountWhatTheClientDid(t *testing.T) {
	node, _ := counting(t)
	c := client(t, Config{Endpoints: []string{node.URL}})
	for range 3 {
		_, err := c.NextID(context.Background(), "orders")
		must(t, err)
	}
	// One id by itself, then a lease of 101 for the second call, from which the third is served. That waits too if it
	// begins before the lease is ready for all.
	s := c.Stats()
	if s.Waits < 2 || s.Waits > 3 {
		t.Errorf("%d waits", s.Waits)
	}
	if s.Waits = 0; s != (Stats{Requests: 2, Leases: 2, LeasedIDs: 102, Tags: 1}) {
		t.Errorf("%+v", s)
	}
}

func TestACallOfAnyTagAllocatesNothing(t *testing.T) {
	node, _ := counting(t)
	c := client(t, Config{Endpoints: []string{node.URL}})
	take := func() {
		for _, tag := range []string{"orders", "users"} {
			if _, err := c.NextID(context.Background(), tag); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 100_000 {
		take()
	}
	if each := testing.AllocsPerRun(10_000, take); each > 0.5 {
		t.Errorf("%v allocations for two ids", each)
	}
}

func TestAContextEndsItsCallAndNoOther(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	c := client(t, Config{Endpoints: []string{silent.URL}})
	other := make(chan error, 1)
	go func() {
		_, err := c.NextID(context.Background(), "orders")
		other <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.NextID(ctx, "orders"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	select {
	case err := <-other:
		t.Errorf("the other call ended: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	c.Close()
	<-other
}

func TestMemoryIsFlat(t *testing.T) {
	node, _ := counting(t)
	c := client(t, Config{Endpoints: []string{node.URL}})
	take := func(ids int) {
		for range ids {
			if _, err := c.NextID(context.Background(), "orders"); err != nil {
				t.Fatal(err)
			}
		}
	}
	heap := func() uint64 {
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		return now.HeapAlloc
	}
	take(1_000_000)
	before := heap()
	take(10_000_000)
	if after := heap(); after > before+4<<20 {
		t.Errorf("%d bytes, %d before", after, before)
	}
}

func BenchmarkNextID(b *testing.B) {
	node, _ := counting(b)
	c := client(b, Config{Endpoints: []string{node.URL}})
	ctx := context.Background()
	for range 2_000_000 {
		_, _ = c.NextID(ctx, "orders")
	}
	b.ResetTimer()
	for range b.N {
		if _, err := c.NextID(ctx, "orders"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNextIDInParallel(b *testing.B) {
	node, _ := counting(b)
	c := client(b, Config{Endpoints: []string{node.URL}})
	for range 2_000_000 {
		_, _ = c.NextID(context.Background(), "orders")
	}
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			if _, err := c.NextID(context.Background(), "orders"); err != nil {
				b.Error(err)
			}
		}
	})
}

func TestWhatIsNoNodeIsToldWithItsStatusAndAShortFirstLine(t *testing.T) {
	for _, c := range []struct {
		status    int
		body, why string
	}{
		{404, "\r\n\aone\ttwo\r\nthree", "answered 404: one two"},
		{403, strings.Repeat("é", 100_000), "answered 403: " + strings.Repeat("é", 200)},
		{422, `{"count_max":1}`, "answered 422"},
		{409, `{"code":"","detail":"why"}`, "answered 409: why"},
		{500, "", "answered 500"},
	} {
		o := read(idsRequest("orders", 1, false), &answer{status: c.status, body: []byte(c.body)})
		if o.kind != gotFailure || o.err.Error() != c.why {
			t.Errorf("%d %.40q: %v", c.status, c.body, o.err)
		}
	}
}

func TestWhatIsWrongWithAMalformedAnswerIsNamed(t *testing.T) {
	for _, c := range []struct {
		r         *request
		body, why string
	}{
		{idsRequest("orders", 1, false), `{"ids":["0"]}`, "the answer has ids that are not rising numbers from 1 to 2^63-1"},
		{idsRequest("orders", 1, true), `{"ranges":[{"start":"2","end":"1"}]}`, "the answer has a range that is malformed or overlaps another"},
		{&request{kind: askLease}, `{"worker_id":1,"lease":"","from_ms":"1","until_ms":"2"}`, "the answer has a malformed lease"},
	} {
		if o := read(c.r, &answer{status: 200, body: []byte(c.body)}); o.kind != gotFailure || o.err.Error() != c.why {
			t.Errorf("%s: %v", c.body, o.err)
		}
	}
	if err := checkName("tag", "a\nb"); err.Error() != "invalid argument: tag must have 1 to 128 characters, and no control characters" {
		t.Errorf("a tag with a line feed: %v", err)
	}
}
