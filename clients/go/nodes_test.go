package mintleaf

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// nodes are three real nodes on this machine.
type nodes struct {
	t       *testing.T
	binary  string
	dir     string
	http    [3]string
	peers   string
	raft    [3]string
	running [3]*exec.Cmd
}

func startNodes(t *testing.T) *nodes {
	binary := os.Getenv("MINTLEAF_BINARY")
	if binary == "" {
		binary = "../../target/debug/mintleaf"
	}
	binary, _ = filepath.Abs(binary)
	if _, err := os.Stat(binary); err != nil {
		t.Skipf("SKIPPED: no binary at %s: cargo build", binary)
	}
	n := &nodes{t: t, binary: binary, dir: t.TempDir()}
	peers := []string{}
	for i := range n.http {
		n.http[i], n.raft[i] = freeAddress(t), freeAddress(t)
		peers = append(peers, fmt.Sprintf("%d=%s", i+1, n.raft[i]))
	}
	n.peers = strings.Join(peers, ",")
	for i := range n.http {
		n.start(i)
	}
	t.Cleanup(func() {
		for i := range n.running {
			n.stop(i, syscall.SIGKILL)
		}
	})
	for i := range n.http {
		n.awaitReady(i)
	}
	return n
}

func (n *nodes) start(i int) {
	id := strconv.Itoa(i + 1)
	node := exec.Command(n.binary, "serve", "--node-id", id, "--http", n.http[i], "--raft", n.raft[i], "--peers", n.peers,
		"--data", filepath.Join(n.dir, id), "--auto-create-tags", "--drain", "1s")
	log, err := os.Create(filepath.Join(n.dir, id+".log"))
	must(n.t, err)
	node.Stdout, node.Stderr = log, log
	must(n.t, node.Start())
	n.running[i] = node
}

func (n *nodes) stop(i int, signal syscall.Signal) {
	if n.running[i] != nil {
		_ = n.running[i].Process.Signal(signal)
		_ = n.running[i].Wait()
		n.running[i] = nil
	}
}

func (n *nodes) awaitReady(i int) {
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		response, err := http.Get("http://" + n.http[i] + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
	}
	log, _ := os.ReadFile(filepath.Join(n.dir, strconv.Itoa(i+1)+".log"))
	n.t.Fatalf("node %d is not ready:\n%s", i+1, log)
}

func (n *nodes) send(method, path, body string) {
	request, err := http.NewRequest(method, "http://"+n.http[0]+path, bytes.NewBufferString(body))
	must(n.t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	must(n.t, err)
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		n.t.Fatalf("%s %s: %d", method, path, response.StatusCode)
	}
}

func (n *nodes) endpoints() []string {
	return []string{"http://" + n.http[0], "http://" + n.http[1], "http://" + n.http[2]}
}

func freeAddress(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

func seconds() time.Duration {
	if n, err := strconv.Atoi(os.Getenv("MINTLEAF_SECONDS")); err == nil {
		return time.Duration(n) * time.Second
	}
	return 15 * time.Second
}

func TestNodesAreKilledAndRolledUnderCalls(t *testing.T) {
	n := startNodes(t)
	n.send("POST", "/v1/tags", `{"tag":"book","kind":"register"}`)
	n.send("PUT", "/v1/pools/shops", `{"workers":"0-7"}`)
	c := client(t, Config{Endpoints: n.endpoints()})
	ctx := context.Background()
	w, err := c.LeaseWorker(ctx, "shops", LeaseSeconds(5))
	must(t, err)
	g, err := w.Generator()
	must(t, err)
	calls := map[string]func(caller, turn int) (int64, error){
		"orders": func(int, int) (int64, error) { return c.NextID(ctx, "orders") },
		"flakes": func(int, int) (int64, error) { return c.NextSnowflake(ctx) },
		"stamps": func(int, int) (int64, error) { return g.NextID(ctx) },
		"book": func(caller, turn int) (int64, error) {
			r, err := c.Register(ctx, "book", fmt.Sprintf("%d-%d", caller, turn))
			return r.ID, err
		},
	}
	var mu sync.Mutex
	seen := map[string]map[int64]bool{}
	ended := make(chan struct{})
	var all sync.WaitGroup
	for kind := range calls {
		seen[kind] = map[int64]bool{}
	}
	for kind, next := range calls {
		for caller := range 4 {
			all.Add(1)
			go func() {
				defer all.Done()
				for turn := 0; ; turn++ {
					select {
					case <-ended:
						return
					default:
					}
					id, err := next(caller, turn)
					mu.Lock()
					if err != nil || seen[kind][id] {
						t.Errorf("%s: %d again, or %v", kind, id, err)
					}
					seen[kind][id] = true
					mu.Unlock()
					time.Sleep(time.Millisecond)
				}
			}()
		}
	}
	until := time.Now().Add(seconds())
	for turn := 0; time.Now().Before(until); turn++ {
		signal := []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[turn%2]
		n.stop(turn%3, signal)
		n.start(turn % 3)
		n.awaitReady(turn % 3)
	}
	close(ended)
	all.Wait()
	for kind, ids := range seen {
		t.Logf("%s: %d", kind, len(ids))
	}
	for number := range int64(len(seen["book"])) {
		if !seen["book"][number+1] {
			t.Errorf("no key has the number %d", number+1)
		}
	}
}
