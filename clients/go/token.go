package mintleaf

import (
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// The longest file of a token.
	tokenBytesMax = 4096
	// A file that was changed this recently is read even if it looks the same, because the clock of a file system is coarse.
	settledFor = 2 * time.Second
)

// tokens gives each request the token that it carries.
type tokens struct {
	fixed  string
	file   string
	logger *slog.Logger

	mu       sync.Mutex
	last     string
	modified time.Time
	size     int64
}

// tokens reads the token for the first time.
func (cfg Config) tokens() (*tokens, error) {
	t := &tokens{fixed: cfg.Token, file: cfg.TokenFile, logger: cfg.Logger}
	switch {
	case cfg.Token != "" && cfg.TokenFile != "":
		return nil, invalid("Token and TokenFile exclude each other")
	case cfg.Token != "":
		return t, checkToken(cfg.Token)
	case cfg.TokenFile != "":
		if err := t.read(); err != nil {
			return nil, invalid("TokenFile: %v", err)
		}
	}
	return t, nil
}

// token is the present token, or the last one that could be read.
func (t *tokens) token() string {
	if t.file == "" {
		return t.fixed
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.read(); err != nil && t.logger != nil {
		t.logger.Warn("the token file of Mintleaf cannot be read; the last token stays", "error", err)
	}
	return t.last
}

func (t *tokens) read() error {
	info, err := os.Stat(t.file)
	if err != nil {
		return err
	}
	isSame := info.ModTime().Equal(t.modified) && info.Size() == t.size
	if t.last != "" && isSame && time.Since(t.modified) > settledFor {
		return nil
	}
	if info.Size() > tokenBytesMax {
		return invalid("TokenFile must have at most %d bytes", tokenBytesMax)
	}
	text, err := os.ReadFile(t.file)
	if err != nil {
		return err
	}
	token := strings.TrimSpace(string(text))
	if err := checkToken(token); err != nil {
		return err
	}
	t.last, t.modified, t.size = token, info.ModTime(), info.Size()
	return nil
}

func checkToken(token string) error {
	isHidden := func(r rune) bool { return r <= ' ' || r > '~' }
	if token == "" || strings.ContainsFunc(token, isHidden) {
		return invalid("a token must be visible ASCII characters")
	}
	return nil
}
