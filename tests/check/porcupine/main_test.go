package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Every small history of the checker's own tests: porcupine finds those that break I5 of tags or I6, and no other.
func TestSmallHistoriesAreJudgedAsTheCheckerJudgesThem(t *testing.T) {
	// Of what these break porcupine's models say nothing: snowflakes, restarts that no order shows, lost tags.
	silent := []string{"i5-snowflakes", "i6-tag-lost-to-ids", "i6-refused"}
	names, err := filepath.Glob("../histories/*.jsonl")
	if err != nil || len(names) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := read(file)
		file.Close()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, illegal, unknown := judge(partsOf(lines), time.Minute)
		base := filepath.Base(name)
		breaks := strings.HasPrefix(base, "i5-") || strings.HasPrefix(base, "i6-")
		for _, prefix := range silent {
			breaks = breaks && !strings.HasPrefix(base, prefix)
		}
		if len(unknown) > 0 {
			t.Errorf("%s: given up: %v", base, unknown)
		}
		if clean := strings.HasPrefix(base, "clean-"); clean && len(illegal) > 0 {
			t.Errorf("%s: %v", base, illegal)
		}
		if breaks && len(illegal) == 0 {
			t.Errorf("%s is found to be linearizable", base)
		}
	}
}
