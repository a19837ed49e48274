// Package recipes tests each program beside it, with a real node. MINTLEAF_BINARY names the node.
package recipes

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// node starts a real node, and returns its address.
func node(t *testing.T) string {
	binary := os.Getenv("MINTLEAF_BINARY")
	if binary == "" {
		t.Skip("SKIPPED: MINTLEAF_BINARY names no binary")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	command := exec.Command(binary, "dev", "--http", address, "--data", t.TempDir())
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		response, err := http.Get("http://" + address + "/readyz")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
	}
	t.Fatal("the node is not ready after a minute")
	return ""
}

func TestGORMRowsHaveDistinctKeysWithFewRequests(t *testing.T) {
	program := exec.Command("go", "run", "./gorm")
	program.Env = append(os.Environ(), "MINTLEAF="+node(t))
	output, err := program.CombinedOutput()
	var rows, distinct, requests int
	if _, scan := fmt.Sscanf(string(output), "%d rows, %d distinct ids, %d requests", &rows, &distinct, &requests); err != nil || scan != nil {
		t.Fatalf("%v, %v: %s", err, scan, output)
	}
	if rows != 10_000 || distinct != 10_000 || requests > 10 {
		t.Errorf("%s", output)
	}
}

func TestThePageShowsAPartOfTheProgram(t *testing.T) {
	page, err := os.ReadFile("../../../docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("gorm/main.go")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```go\n")
	part, _, _ := strings.Cut(block, "```\n")
	if !found || !strings.Contains(string(program), part) {
		t.Error("docs/adapters.md shows no part of gorm/main.go")
	}
}
