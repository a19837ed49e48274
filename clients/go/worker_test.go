package mintleaf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestThreadsShareAGenerator(t *testing.T) {
	const from, goroutines, each = 1_800_000_000_000, 4, 50_000
	var givenBack string
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			body, _ := io.ReadAll(r.Body)
			givenBack = string(body)
			return
		}
		fmt.Fprintf(w, `{"worker_id":17,"lease":"17-1","from_ms":"%d","until_ms":"%d"}`, from, from+60_000)
	}))
	t.Cleanup(node.Close)
	c := client(t, Config{Endpoints: []string{node.URL}})
	lease, err := c.LeaseWorker(context.Background(), "shops")
	must(t, err)
	generator, err := lease.Generator()
	must(t, err)
	var all, have sync.WaitGroup
	made := make([][]int64, goroutines)
	for i := range made {
		all.Add(1)
		have.Add(1)
		go func() {
			defer all.Done()
			for {
				id, err := generator.NextID(context.Background())
				if err != nil {
					if len(made[i]) < each {
						have.Done()
					}
					if !errors.Is(err, ErrClosed) {
						t.Errorf("after %d ids: %v", len(made[i]), err)
					}
					return
				}
				if last := len(made[i]) - 1; last >= 0 && id <= made[i][last] {
					t.Errorf("%d is not above %d", id, made[i][last])
				}
				if made[i] = append(made[i], id); len(made[i]) == each {
					have.Done()
				}
			}
		}()
	}
	have.Wait()
	c.Close()
	all.Wait()
	seen, highest := map[int64]bool{}, int64(0)
	for _, ids := range made {
		for _, id := range ids {
			if seen[id] || id>>12&1023 != 17 {
				t.Fatalf("%d came twice, or has another worker id", id)
			}
			seen[id] = true
			highest = max(highest, id>>22+epochDefault)
		}
	}
	if highest < from || givenBack != fmt.Sprintf(`{"last_ms":"%d"}`, highest) {
		t.Errorf("the highest millisecond is %d, given back with %s", highest, givenBack)
	}
}

// leased returns a client with a token, and the lease of worker id 17 that a node gives it.
func leased(t *testing.T) (*Client, *WorkerLease) {
	t.Helper()
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"worker_id":17,"lease":"17-secret","from_ms":"1800000000000","until_ms":"1800000060000"}`)
	}))
	t.Cleanup(node.Close)
	c := client(t, Config{Endpoints: []string{node.URL}, Token: "mlt_secret"})
	lease, err := c.LeaseWorker(context.Background(), "shops")
	must(t, err)
	return c, lease
}

func TestWhatIsPrintedHasNeitherTheNameOfALeaseNorTheToken(t *testing.T) {
	c, lease := leased(t)
	generator, err := lease.Generator()
	must(t, err)
	for _, value := range []any{c, lease, generator} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
			if text := fmt.Sprintf(verb, value); strings.Contains(text, "secret") {
				t.Errorf("%s of %T is %s", verb, value, text)
			}
		}
	}
	if text := fmt.Sprint(lease); text != "worker id 17 of shops until 1800000060000" {
		t.Errorf("a lease is printed as %q", text)
	}
}

func TestAClosedLeaseIsNotCalledAClosedClient(t *testing.T) {
	c, lease := leased(t)
	generator, err := lease.Generator()
	must(t, err)
	lease.Close()
	_, ofGenerator := generator.NextID(context.Background())
	_, ofLease := lease.Generator()
	for _, err := range []error{ofGenerator, ofLease} {
		if !errors.Is(err, ErrClosed) || err.Error() != "the worker lease is closed" {
			t.Errorf("a closed lease fails with %v", err)
		}
	}
	c.Close()
	if _, err := c.NextID(context.Background(), "orders"); !errors.Is(err, ErrClosed) || err.Error() != "the client is closed" {
		t.Errorf("a closed client fails with %v", err)
	}
}

func TestTheLogSaysWhyALeaseIsLost(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/17-secret") {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"code":"conflict","detail":"the lease is over"}`)
			return
		}
		fmt.Fprint(w, `{"worker_id":17,"lease":"17-secret","from_ms":"1800000000000","until_ms":"1800000060000"}`)
	}))
	t.Cleanup(node.Close)
	var log strings.Builder
	c := client(t, Config{Endpoints: []string{node.URL}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	lease, err := c.LeaseWorker(context.Background(), "shops", LeaseSeconds(secondsMin))
	must(t, err)
	for !lease.IsLost() {
		time.Sleep(10 * time.Millisecond)
	}
	c.Close()
	if !strings.Contains(log.String(), `worker_id=17 error="the node refused (409 conflict): the lease is over"`) {
		t.Errorf("the log says: %s", log.String())
	}
	if strings.Contains(log.String(), "secret") {
		t.Errorf("the log has the name of the lease: %s", log.String())
	}
}

func TestALeaseHasOneGeneratorInOneLayout(t *testing.T) {
	_, lease := leased(t)
	generator, err := lease.Generator()
	must(t, err)
	if again, err := lease.GeneratorOf(DefaultLayout); again != generator || err != nil {
		t.Errorf("the same layout again: %v", err)
	}
	other, err := lease.GeneratorOf(Layout{EpochMS: 0, WorkerBits: 10, SequenceBits: 12})
	if other != nil || !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "another layout") {
		t.Errorf("another layout: %v", err)
	}
}

func TestWhatIsStampedWhileAGeneratorIsMadeIsNotTheGenerators(t *testing.T) {
	const from = 1_800_000_000_000
	_, lease := leased(t)
	var all sync.WaitGroup
	highest := make([]int64, 4)
	begun := make(chan struct{}, len(highest))
	for i := range highest {
		all.Add(1)
		go func() {
			defer all.Done()
			// The generator has milliseconds left, however late it is made.
			for ms := int64(from); lease.MayStamp(ms); ms = min(ms+1, from+50_000) {
				if highest[i] = ms; ms == from {
					begun <- struct{}{}
				}
			}
		}()
	}
	for range highest {
		<-begun
	}
	generator, err := lease.Generator()
	must(t, err)
	id, err := generator.NextID(context.Background())
	must(t, err)
	all.Wait()
	for _, stamped := range highest {
		if made := id>>22 + epochDefault; made <= stamped {
			t.Errorf("the generator has millisecond %d, and %d was stamped beside it", made-from, stamped-from)
		}
	}
}

func TestALayoutIsForTheWorkerIDsThatFit(t *testing.T) {
	_, lease := leased(t)
	_, err := lease.GeneratorOf(Layout{EpochMS: epochDefault, WorkerBits: 4, SequenceBits: 12})
	if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "worker id 17") {
		t.Errorf("worker id 17 in four bits: %v", err)
	}
	const epoch = 1_799_999_999_000
	generator, err := lease.GeneratorOf(Layout{EpochMS: epoch, WorkerBits: 5, SequenceBits: 3})
	must(t, err)
	began := time.Now()
	for i := range int64(100) {
		id, err := generator.NextID(context.Background())
		must(t, err)
		if ms := id>>8 - 1_000; id>>3&31 != 17 || ms < i/8 || ms > i/8+time.Since(began).Milliseconds()+1 {
			t.Fatalf("id %d, the %dth, has millisecond %d and worker id %d", id, i, ms, id>>3&31)
		}
	}
}
