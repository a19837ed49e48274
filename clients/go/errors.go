package mintleaf

import (
	"errors"
	"fmt"
)

// The kinds of errors of a call. They are wrapped with a detail, so compare them by [errors.Is].
var (
	// ErrUnavailable: no node answered in time. The detail names the last endpoint and what it met. A later call may succeed.
	ErrUnavailable = errors.New("no node answered in time")
	// ErrOverloaded: 10,000 calls wait already. A later call may succeed.
	ErrOverloaded = errors.New("10,000 calls wait already; call again later")
	// ErrClosed: the client, or the worker lease, is closed.
	ErrClosed = errors.New("the client is closed")
	// ErrInvalidArgument: every node would reject the argument.
	ErrInvalidArgument = errors.New("invalid argument")
	// ErrNotANumber: the ids of the tag are texts; NextText returns them. The id is wasted.
	ErrNotANumber = errors.New("the ids of the tag are texts: use NextText")
)

// RefusedError is a node's refusal, which every node would repeat. It is found by [errors.As].
type RefusedError struct {
	// Status is the HTTP status.
	Status int
	// Code is stable, such as unknown_tag or frozen.
	Code string
	// Detail is a sentence for people. It may be empty.
	Detail string
}

func (e *RefusedError) Error() string {
	text := fmt.Sprintf("the node refused (%d %s)", e.Status, e.Code)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// leaseClosedError is the ErrClosed of a worker lease, whose client may go on.
type leaseClosedError struct{}

func (leaseClosedError) Error() string { return "the worker lease is closed" }

func (leaseClosedError) Is(target error) bool { return target == ErrClosed }

func unavailable(met string) error { return fmt.Errorf("%w: %s", ErrUnavailable, met) }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalidArgument, fmt.Sprintf(format, args...))
}
