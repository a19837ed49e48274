package mintleaf

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	n.admit(0)
	must(t, os.WriteFile(n.tokenFile(), []byte(tokenOf(0)), 0o600))
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
		"--data", filepath.Join(n.dir, id), "--auto-create-tags", "--drain", "1s", "--auth-file", n.authFile(), "--insecure")
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

// hang stops a node for longer than an attempt lasts, and lets it go on.
func (n *nodes) hang(i int) {
	must(n.t, n.running[i].Process.Signal(syscall.SIGSTOP))
	time.Sleep(3500 * time.Millisecond)
	must(n.t, n.running[i].Process.Signal(syscall.SIGCONT))
}

func (n *nodes) authFile() string  { return filepath.Join(n.dir, "auth.toml") }
func (n *nodes) tokenFile() string { return filepath.Join(n.dir, "token") }

func tokenOf(number int) string { return fmt.Sprintf("mlt_%064x", number) }

// admit puts the tokens of these numbers, and no others, into the auth file of all nodes.
func (n *nodes) admit(numbers ...int) {
	text := "anonymous = \"admin\"\n"
	for _, number := range numbers {
		hash := sha256.Sum256([]byte(tokenOf(number)))
		text += fmt.Sprintf("[[token]]\nname = \"t%d\"\nrole = \"issue\"\nhash = \"sha256:%x\"\n", number, hash)
	}
	n.replace(n.authFile(), text)
	for _, node := range n.running {
		if node != nil {
			must(n.t, node.Process.Signal(syscall.SIGHUP))
		}
	}
}

func (n *nodes) replace(file, text string) {
	must(n.t, os.WriteFile(file+".new", []byte(text), 0o600))
	must(n.t, os.Rename(file+".new", file))
}

// changeToken replaces a token by the next one while calls go on. All nodes are up.
func (n *nodes) changeToken(number int) {
	n.admit(number, number+1)
	for i := range n.http {
		n.awaitStatus(i, "/v1/snowflake", tokenOf(number+1), http.StatusOK)
	}
	n.replace(n.tokenFile(), tokenOf(number+1))
	// Requests under way still carry the old one.
	time.Sleep(2 * time.Second)
	n.admit(number + 1)
	for i := range n.http {
		n.awaitStatus(i, "/v1/snowflake", tokenOf(number), http.StatusUnauthorized)
	}
}

func (n *nodes) awaitReady(i int) { n.awaitStatus(i, "/readyz", "", http.StatusOK) }

func (n *nodes) awaitStatus(i int, path, token string, status int) {
	patient := http.Client{Timeout: 5 * time.Second}
	for until := time.Now().Add(60 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		request, err := http.NewRequest("GET", "http://"+n.http[i]+path, nil)
		must(n.t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := patient.Do(request)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == status {
				return
			}
		}
	}
	log, _ := os.ReadFile(filepath.Join(n.dir, strconv.Itoa(i+1)+".log"))
	n.t.Fatalf("node %d does not answer %s with %d:\n%s", i+1, path, status, log)
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

// idRuns are ids in the order of their arrival, as runs of consecutive ones.
type idRuns struct {
	runs  []idRange
	count int64
}

func (r *idRuns) add(ids []int64) {
	for _, id := range ids {
		if last := len(r.runs) - 1; last >= 0 && r.runs[last].end == uint64(id) {
			r.runs[last].end++
		} else {
			r.runs = append(r.runs, idRange{uint64(id), uint64(id) + 1})
		}
	}
	r.count += int64(len(ids))
}

// repeated returns an id that came twice, or 0.
func (r *idRuns) repeated() uint64 {
	slices.SortFunc(r.runs, func(a, b idRange) int { return int(int64(a.start) - int64(b.start)) })
	for i := 1; i < len(r.runs); i++ {
		if r.runs[i].start < r.runs[i-1].end {
			return r.runs[i].start
		}
	}
	return 0
}

const (
	// What memory may grow by, beside the ids that the test keeps. 10^8 ids that a client kept would be many times more.
	growthMaxMiB = 64
	// The memory of an id in a map, under the race detector too.
	keptBytes = 128
)

// look is what this process takes after so many ids.
type look struct{ ids, mib int64 }

func residentMiB(t *testing.T) int64 {
	debug.FreeOSMemory()
	statm, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(statm))[1], 10, 64)
	must(t, err)
	return pages * int64(os.Getpagesize()) >> 20
}

// MINTLEAF_SECONDS says how long. Three minutes are more than 10^8 ids, without the race detector.
func TestNodesAreKilledRolledAndHungUnderCalls(t *testing.T) {
	n := startNodes(t)
	n.send("POST", "/v1/tags", `{"tag":"book","kind":"register"}`)
	n.send("PUT", "/v1/pools/shops", `{"workers":"0-7"}`)
	// On a loaded machine a new leader may take longer than a caller would wait.
	c := client(t, Config{Endpoints: n.endpoints(), TokenFile: n.tokenFile(), Timeout: 60 * time.Second})
	ctx := context.Background()
	// It outlives a hang and what follows.
	w, err := c.LeaseWorker(ctx, "shops", LeaseSeconds(60))
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
	var many idRuns
	var taken atomic.Int64
	all.Add(1)
	go func() {
		defer all.Done()
		for {
			select {
			case <-ended:
				return
			default:
			}
			ids, err := c.NextIDs(ctx, "many", countMax)
			if err != nil {
				t.Errorf("many: %v", err)
				return
			}
			many.add(ids)
			taken.Add(int64(len(ids)))
			time.Sleep(time.Millisecond)
		}
	}()
	var looks []look
	until, turn := time.Now().Add(seconds()), 0
	for ; time.Now().Before(until) || turn < 3; turn++ {
		node := (turn + turn/3) % 3
		switch turn % 3 {
		case 0:
			n.stop(node, syscall.SIGKILL)
			n.start(node)
		case 1:
			n.hang(node)
		default:
			n.stop(node, syscall.SIGTERM)
			n.start(node)
		}
		n.awaitReady(node)
		n.changeToken(turn)
		looks = append(looks, look{taken.Load(), residentMiB(t)})
	}
	close(ended)
	all.Wait()
	t.Logf("%d turns, many: %d ids in %d runs", turn, many.count, len(many.runs))
	if id := many.repeated(); id != 0 {
		t.Errorf("many: %d came twice", id)
	}
	kept := int64(0)
	for kind, ids := range seen {
		t.Logf("%s: %d", kind, len(ids))
		kept += int64(len(ids))
	}
	first, middle, last := looks[0], looks[len(looks)/2], looks[len(looks)-1]
	t.Logf("%d MiB after %d ids, %d after %d, %d after %d", first.mib, first.ids, middle.mib, middle.ids, last.mib, last.ids)
	if last.mib-first.mib >= growthMaxMiB+kept*keptBytes>>20 {
		t.Errorf("memory grows: %v", looks)
	}
	for number := range int64(len(seen["book"])) {
		if !seen["book"][number+1] {
			t.Errorf("no key has the number %d", number+1)
		}
	}
}
