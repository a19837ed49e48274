package mintleaf

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

func TestATokenFileIsReadAgainWhenItChanges(t *testing.T) {
	var shown string
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown = r.Header.Get("Authorization")
		fmt.Fprint(w, `{"ids":["1"],"lease":false}`)
	}))
	defer node.Close()
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte("mlt_first\n"), 0o600))
	c := client(t, Config{Endpoints: []string{node.URL}, TokenFile: file})
	for _, step := range []struct{ content, wanted string }{
		{"mlt_first\n", "Bearer mlt_first"},
		{"mlt_other\n", "Bearer mlt_other"},
		{"", "Bearer mlt_other"},
		{"mlt_third", "Bearer mlt_third"},
	} {
		must(t, os.WriteFile(file, []byte(step.content), 0o600))
		_, err := c.NextNumber(context.Background(), "chat", "room")
		must(t, err)
		if shown != step.wanted {
			t.Errorf("the node saw %q, not %q", shown, step.wanted)
		}
	}
	must(t, os.Remove(file))
	_, err := c.NextNumber(context.Background(), "chat", "room")
	must(t, err)
	if shown != "Bearer mlt_third" {
		t.Errorf("without the file the node saw %q", shown)
	}
}

func TestSettingsOutOfBoundsAreRefused(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no endpoint":     {},
		"no scheme":       {Endpoints: []string{"a:8080"}},
		"a path":          {Endpoints: []string{"http://a:8080/v1"}},
		"a user":          {Endpoints: []string{"http://u:p@a:8080"}},
		"an empty port":   {Endpoints: []string{"http://a:"}},
		"a large port":    {Endpoints: []string{"http://a:99999"}},
		"a query":         {Endpoints: []string{"http://a?b"}},
		"a token of two":  {Endpoints: []string{"http://a"}, Token: "a b"},
		"no token file":   {Endpoints: []string{"http://a"}, TokenFile: "/does/not/exist"},
		"two tokens":      {Endpoints: []string{"http://a"}, Token: "a", TokenFile: "/does/not/exist"},
		"a large lease":   {Endpoints: []string{"http://a"}, LeaseMax: 1_000_001},
		"a short timeout": {Endpoints: []string{"http://a"}, Timeout: 1},
	} {
		if c, err := New(cfg); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
			if c != nil {
				c.Close()
			}
		}
	}
	for _, good := range []string{"http://a:8080", "https://ids.example.org/", "http://[::1]:80"} {
		client(t, Config{Endpoints: []string{good}})
	}
}
