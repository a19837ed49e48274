// Judges a recorded history with porcupine, which shares no code with mintleaf-check. The format of histories is in the
// README one directory up.
//
//	scripts/porcupine history.jsonl
//
// Two models: each tag is a register of its row (I6), and a strict tag is a counter that rises over all nodes, every other
// tag one that rises at each node (I5). Exit code 0: a linearization exists of every part; 1: of some part none does;
// 2: a line cannot be read.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

type row struct {
	Step        *uint32 `json:"step"`
	Description *string `json:"description"`
}

// A line of a history, as far as the models want it.
type line struct {
	Op    string      `json:"op"`
	P     int         `json:"p"`
	Node  int         `json:"node"`
	Inv   int64       `json:"inv"`
	Ret   *int64      `json:"ret"`
	Out   string      `json:"out"`
	Code  string      `json:"code"`
	Key   string      `json:"key"`
	Row   *row        `json:"row"`
	Seen  *row        `json:"seen"`
	Stale bool        `json:"stale"`
	R     [][2]uint64 `json:"r"`
}

// What an operation does to a tag, or shows of it.
type step struct {
	kind string
	// Its outcome is unknown: it may take effect at any later time, or never.
	doubted   bool
	row, seen row
}

// A tag. Nil means not known yet: a tag may be older than the history.
type tag struct {
	exists      bool
	known       bool
	step        string
	description string
}

func said(r row) (string, string) {
	var step, description string
	if r.Step != nil {
		step = fmt.Sprint("=", *r.Step)
	}
	if r.Description != nil {
		description = "=" + *r.Description
	}
	return step, description
}

func (t tag) with(r row) tag {
	step, description := said(r)
	if step != "" {
		t.step = step
	}
	if description != "" {
		t.description = description
	}
	return t
}

func (t tag) existing() (tag, bool) {
	may := t.exists || !t.known
	t.exists, t.known = true, true
	return t, may
}

func (t tag) agrees(r row) (tag, bool) {
	known, may := t.existing()
	step, description := said(r)
	differ := func(one, other string) bool { return one != "" && other != "" && one != other }
	return known.with(r), may && !differ(known.step, step) && !differ(known.description, description)
}

func (t tag) after(s step) (tag, bool) {
	fresh := tag{exists: true, known: true}
	absent := tag{known: true}
	gone := t.known && !t.exists
	switch {
	case s.doubted && s.kind == "create" && t.exists:
		return t, true
	case s.doubted && s.kind == "create" && gone:
		return fresh.with(s.row), true
	case s.doubted && s.kind == "create":
		return fresh, true
	case s.doubted && s.kind == "update" && gone:
		return t, true
	case s.doubted && s.kind == "update" && t.exists:
		return t.with(s.row), true
	case s.doubted && s.kind == "update":
		return tag{}, true
	case s.doubted:
		return absent, true
	case s.kind == "create":
		return fresh.with(s.row), !t.exists
	case s.kind == "update":
		known, may := t.existing()
		after, agrees := known.with(s.row).agrees(s.seen)
		return after, may && agrees
	case s.kind == "delete":
		return absent, !gone
	case s.kind == "exists":
		return t.existing()
	case s.kind == "absent":
		return absent, !t.exists
	default:
		return t.agrees(s.row)
	}
}

var tags = porcupine.Model{
	Init: func() interface{} { return tag{} },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		after, may := state.(tag).after(input.(step))
		return may, after
	},
}

// A counter of which ids are taken: each answer lies above all before it.
var counters = porcupine.Model{
	Init: func() interface{} { return uint64(0) },
	Step: func(state, input, output interface{}) (bool, interface{}) {
		last := state.(uint64)
		for _, ids := range output.([][2]uint64) {
			if ids[0] < last {
				return false, last
			}
			last = ids[1]
		}
		return true, last
	},
}

// The step of an operation; false for one that changed nothing and showed nothing.
func stepOf(l line) (step, bool) {
	s := step{kind: l.Op, doubted: l.Out == "info"}
	switch {
	case l.Out == "fail" && (l.Code == "tag_exists" || l.Code == "conflict"):
		return step{kind: "exists"}, true
	case l.Out == "fail" && l.Code == "unknown_tag":
		return step{kind: "absent"}, true
	case l.Out == "fail" || l.Op == "read" && (s.doubted || l.Stale):
		return s, false
	case l.Op == "read" && l.Row == nil:
		return step{kind: "absent"}, true
	}
	if l.Row != nil {
		s.row = *l.Row
	}
	if l.Seen != nil {
		s.seen = *l.Seen
	}
	return s, true
}

type part struct {
	name  string
	model porcupine.Model
	ops   []porcupine.Operation
}

// The parts of a history, which are linearizable or not each by itself.
func partsOf(lines []line) []part {
	strict := map[string]bool{}
	for _, l := range lines {
		if l.Op == "strict" {
			strict[l.Key] = true
		}
	}
	parts := map[string]*part{}
	add := func(name string, model porcupine.Model, l line, input, output interface{}) {
		if parts[name] == nil {
			parts[name] = &part{name: name, model: model}
		}
		ret := int64(math.MaxInt64)
		if l.Ret != nil && l.Out != "info" {
			ret = *l.Ret
		}
		operation := porcupine.Operation{ClientId: l.P, Input: input, Call: l.Inv, Output: output, Return: ret}
		parts[name].ops = append(parts[name].ops, operation)
	}
	for _, l := range lines {
		switch l.Op {
		case "create", "update", "delete", "read":
			if s, shows := stepOf(l); shows {
				add("row of "+l.Key, tags, l, s, nil)
			}
		case "ids":
			if l.Out == "ok" && strict[l.Key] {
				add("order of "+l.Key, counters, l, nil, l.R)
			} else if l.Out == "ok" {
				add(fmt.Sprintf("order of %s at node %d", l.Key, l.Node), counters, l, nil, l.R)
			}
		}
	}
	all := make([]part, 0, len(parts))
	for _, one := range parts {
		all = append(all, *one)
	}
	sort.Slice(all, func(a, b int) bool { return all[a].name < all[b].name })
	return all
}

func read(from io.Reader) ([]line, error) {
	var lines []line
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 1<<26)
	for number := 1; scanner.Scan(); number++ {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		lines = append(lines, l)
	}
	return lines, scanner.Err()
}

// How many parts have a linearization, and the names of those that have none or were given up.
func judge(parts []part, patience time.Duration) (operations int, illegal, unknown []string) {
	for _, one := range parts {
		operations += len(one.ops)
		switch porcupine.CheckOperationsTimeout(one.model, one.ops, patience) {
		case porcupine.Illegal:
			illegal = append(illegal, one.name)
		case porcupine.Unknown:
			unknown = append(unknown, one.name)
		}
	}
	return operations, illegal, unknown
}

func main() {
	patience := flag.Duration("patience", 30*time.Second, "how long to search for a linearization of one part")
	flag.Parse()
	var lines []line
	for _, name := range flag.Args() {
		file, err := os.Open(name)
		if err == nil {
			var more []line
			more, err = read(file)
			lines = append(lines, more...)
			file.Close()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(2)
		}
	}
	parts := partsOf(lines)
	operations, illegal, unknown := judge(parts, *patience)
	for _, name := range illegal {
		fmt.Printf("NOT LINEARIZABLE: %s\n", name)
	}
	for _, name := range unknown {
		fmt.Printf("GIVEN UP: %s\n", name)
	}
	fmt.Printf("%d parts with %d operations: %d not linearizable, %d given up\n",
		len(parts), operations, len(illegal), len(unknown))
	if len(illegal) > 0 {
		os.Exit(1)
	}
}
