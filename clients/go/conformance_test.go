package mintleaf

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

type step struct {
	Do, Tag, Key, Pool, As, Of, To, MS string
	Count, Times, Beside, Seconds      int
	Gives                              any
	Fails                              *struct {
		Code, Detail string
		Status       int
	}
	Call     *step
	AfterMS  int `json:"after_ms"`
	WithinMS int `json:"within_ms"`
	Sleep    int `json:"-"`
}

type conformanceCase struct {
	Name   string
	Client struct {
		AttemptMS int `json:"attempt_ms"`
		ConnectMS int `json:"connect_ms"`
		CallMS    int `json:"call_ms"`
		LeaseMax  int `json:"lease_max"`
		Zone      string
		Token     string
	}
	Steps []json.RawMessage
}

// server starts the scripted server, and returns the address of its control.
func server(t *testing.T) string {
	binary := os.Getenv("MINTLEAF_CONFORMANCE")
	if binary == "" {
		binary = "../../target/debug/mintleaf-conformance"
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skipf("SKIPPED: no scripted server at %s: cargo build -p mintleaf-conformance", binary)
	}
	command := exec.Command(binary)
	stdin, err := command.StdinPipe()
	must(t, err)
	stdout, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() {
		stdin.Close()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, err)
	var said struct{ Control string }
	must(t, json.Unmarshal([]byte(line), &said))
	return said.Control
}

func TestConformance(t *testing.T) {
	control := server(t)
	content, err := os.ReadFile("../conformance/cases.json")
	must(t, err)
	var all struct{ Cases []conformanceCase }
	must(t, json.Unmarshal(content, &all))
	if len(all.Cases) < 40 {
		t.Fatalf("only %d cases", len(all.Cases))
	}
	for _, one := range all.Cases {
		t.Run(one.Name, func(t *testing.T) { play(t, control, one) })
	}
}

// player carries out the steps of one case.
type player struct {
	t       *testing.T
	control string
	c       *Client
	mu      sync.Mutex
	seen    map[string]bool
	leases  map[string]*WorkerLease
	begun   map[string]chan error
	last    map[string]int64
}

func play(t *testing.T, control string, one conformanceCase) {
	var armed struct{ Endpoints []string }
	must(t, json.Unmarshal(post(t, "POST", control+"/cases/"+one.Name), &armed))
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	c, err := New(Config{
		Endpoints: armed.Endpoints, Token: one.Client.Token, Zone: one.Client.Zone, LeaseMax: one.Client.LeaseMax,
		Timeout: ms(one.Client.CallMS), AttemptTimeout: ms(one.Client.AttemptMS), ConnectTimeout: ms(one.Client.ConnectMS),
	})
	must(t, err)
	defer c.Close()
	p := &player{t: t, control: control, c: c, seen: map[string]bool{}, leases: map[string]*WorkerLease{},
		begun: map[string]chan error{}, last: map[string]int64{}}
	for at, raw := range one.Steps {
		var s step
		if err := decodeStep(raw, &s); err != nil {
			t.Fatalf("step %d is not understood: %v", at, err)
		}
		if err := p.carryOut(&s); err != nil {
			t.Fatalf("step %d, %s: %v", at, raw, err)
		}
	}
	var verdict struct {
		OK     bool
		Faults []string
	}
	must(t, json.Unmarshal(post(t, "GET", control+"/verdict"), &verdict))
	if !verdict.OK {
		t.Fatal(strings.Join(verdict.Faults, "\n"))
	}
}

// decodeStep reads a step; "ms" is a text of one kind of step and a number of another.
func decodeStep(raw []byte, s *step) error {
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	if ms, isNumber := fields["ms"].(float64); isNumber {
		s.Sleep = int(ms)
		delete(fields, "ms")
		raw, _ = json.Marshal(fields)
	}
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	return decoder.Decode(s)
}

func (p *player) carryOut(s *step) error {
	began := time.Now()
	if err := p.repeated(s); err != nil {
		return err
	}
	took := time.Since(began)
	if took < time.Duration(s.AfterMS)*time.Millisecond {
		return fmt.Errorf("it took %v, less than %d ms", took, s.AfterMS)
	}
	if s.WithinMS > 0 && took > time.Duration(s.WithinMS)*time.Millisecond {
		return fmt.Errorf("it took %v, more than %d ms", took, s.WithinMS)
	}
	return nil
}

func (p *player) repeated(s *step) error {
	if s.Beside > 0 {
		errs := make(chan error)
		for range s.Beside {
			go func() { errs <- p.once(s) }()
		}
		var all error
		for range s.Beside {
			all = errors.Join(all, <-errs)
		}
		return all
	}
	times := max(s.Times, 1)
	if s.Do == "generate" {
		times = 1
	}
	for range times {
		if err := p.once(s); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) once(s *step) error {
	gave, err := p.do(s)
	if s.Fails != nil {
		return failsAs(s, err, strings.TrimPrefix(p.c.cfg.Endpoints[0], "http://"))
	}
	if err != nil {
		return err
	}
	return matches(s.Gives, gave)
}

// do carries a step out once, and returns what it gives.
func (p *player) do(s *step) (any, error) {
	ctx := context.Background()
	switch s.Do {
	case "next_id":
		id, err := p.c.NextID(ctx, s.Tag)
		return p.note(s.Tag, err, id)
	case "next_ids":
		ids, err := p.c.NextIDs(ctx, s.Tag, s.Count)
		texts := []any{}
		for _, id := range ids {
			text, twice := p.note(s.Tag, err, id)
			if err = errors.Join(err, twice); err == nil {
				texts = append(texts, text)
			}
		}
		return texts, err
	case "next_text":
		text, err := p.c.NextText(ctx, s.Tag)
		if err == nil {
			err = p.noteText(s.Tag, text)
		}
		return text, err
	case "next_snowflake":
		id, err := p.c.NextSnowflake(ctx)
		return p.note("\x00snowflakes", err, id)
	case "next_number":
		id, err := p.c.NextNumber(ctx, s.Tag, s.Key)
		return p.note(s.Tag+"\x00"+s.Key, err, id)
	case "register":
		r, err := p.c.Register(ctx, s.Tag, s.Key)
		gave := map[string]any{"id": strconv.FormatInt(r.ID, 10), "text": r.Text, "new": r.New, "period": nil}
		if r.Period != "" {
			gave["period"] = r.Period
		}
		return gave, err
	case "lease_worker":
		options := []LeaseOption{}
		if s.Seconds != 0 {
			options = append(options, LeaseSeconds(s.Seconds))
		}
		w, err := p.c.LeaseWorker(ctx, s.Pool, options...)
		if err != nil {
			return nil, err
		}
		p.leases[s.As] = w
		return map[string]any{
			"worker_id": float64(w.WorkerID()), "from_ms": strconv.FormatInt(w.FromMS(), 10), "until_ms": strconv.FormatInt(w.UntilMS(), 10),
		}, nil
	case "may_stamp":
		ms, err := strconv.ParseInt(s.MS, 10, 64)
		return p.leases[s.Of].MayStamp(ms), err
	case "is_lost":
		return p.leases[s.Of].IsLost(), nil
	case "close_lease":
		p.leases[s.Of].Close()
		return nil, nil
	case "generate":
		return nil, p.generate(s)
	case "close":
		p.c.Close()
		return nil, nil
	case "sleep":
		time.Sleep(time.Duration(s.Sleep) * time.Millisecond)
		return nil, nil
	case "phase":
		post(p.t, "POST", p.control+"/phases/"+s.To)
		return nil, nil
	case "start":
		ended := make(chan error, 1)
		p.begun[s.As] = ended
		go func() { ended <- p.carryOut(s.Call) }()
		// The call has begun before the next step.
		time.Sleep(50 * time.Millisecond)
		return nil, nil
	case "await":
		return nil, <-p.begun[s.As]
	default:
		return nil, fmt.Errorf("no step %q", s.Do)
	}
}

func (p *player) generate(s *step) error {
	g, err := p.leases[s.Of].Generator()
	if err != nil {
		return err
	}
	gives, _ := s.Gives.(map[string]any)
	s.Gives = nil
	from, until := int64(0), idMax
	if gives != nil {
		from, _ = strconv.ParseInt(gives["from_ms"].(string), 10, 64)
		until, _ = strconv.ParseInt(gives["until_ms"].(string), 10, 64)
	}
	for range s.Times {
		id, err := g.NextID(context.Background())
		if err != nil {
			return err
		}
		if id <= p.last[s.Of] {
			return fmt.Errorf("%d is not above %d", id, p.last[s.Of])
		}
		p.last[s.Of] = id
		if _, err := p.note("\x00generated", nil, id); err != nil {
			return err
		}
		ms, worker := id>>22+epochDefault, id>>12&1023
		if gives != nil && (float64(worker) != gives["worker_id"] || ms < from || ms >= until) {
			return fmt.Errorf("%d has worker id %d and millisecond %d", id, worker, ms)
		}
	}
	return nil
}

// note remembers an id: none may come twice.
func (p *player) note(of string, err error, id int64) (any, error) {
	if err != nil {
		return nil, err
	}
	text := strconv.FormatInt(id, 10)
	return text, p.noteText(of, text)
}

func (p *player) noteText(of, text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen[of+"\x00"+text] {
		return fmt.Errorf("%s came twice", text)
	}
	p.seen[of+"\x00"+text] = true
	return nil
}

// failsAs says how an error is not the wanted one; first is the address of the first endpoint.
func failsAs(s *step, err error, first string) error {
	if err == nil {
		return errors.New("it did not fail")
	}
	code, status := "", 0
	var refused *RefusedError
	switch {
	case errors.As(err, &refused):
		code, status = refused.Code, refused.Status
	case errors.Is(err, ErrUnavailable):
		code = "unavailable"
	case errors.Is(err, ErrClosed):
		code = "closed"
	case errors.Is(err, ErrInvalidArgument):
		code = "invalid_argument"
	case errors.Is(err, ErrNotANumber):
		code = "not_a_number"
	case errors.Is(err, ErrOverloaded):
		code = "overloaded"
	}
	want := s.Fails
	if (want.Code != "" && want.Code != code) || (want.Status != 0 && want.Status != status) {
		return fmt.Errorf("it failed with %q %d: %w", code, status, err)
	}
	detail := strings.NewReplacer("next_text", "NextText", "{endpoint}", first).Replace(want.Detail)
	if !strings.Contains(err.Error(), detail) {
		return fmt.Errorf("it says nothing of %q: %w", detail, err)
	}
	return nil
}

func matches(wanted, gave any) error {
	fields, isMap := wanted.(map[string]any)
	if given, both := gave.(map[string]any); isMap && both {
		for name, value := range fields {
			if !reflect.DeepEqual(given[name], value) {
				return fmt.Errorf("%s is %v, not %v", name, given[name], value)
			}
		}
		return nil
	}
	if wanted != nil && !reflect.DeepEqual(wanted, gave) {
		return fmt.Errorf("it gave %v, not %v", gave, wanted)
	}
	return nil
}

func post(t *testing.T, method, url string) []byte {
	request, err := http.NewRequest(method, url, nil)
	must(t, err)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	must(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, url, response.StatusCode, content)
	}
	return content
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
