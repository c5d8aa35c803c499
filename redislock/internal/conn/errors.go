// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/rueidis"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/driver/storekit"
)

// dialError is an error before a request was sent.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// Explain adds a hint to an error of the server, and reports whether it is lasting.
func Explain(err error) (explained error, lasting bool) {
	if text, ok := strings.CutPrefix(err.Error(), "unknown command "); ok {
		return storekit.OfKind(storekit.ErrConfig, &unknownCommand{err, text}), true
	}
	if Refused(err) != nil {
		err = scriptError{err}
	}
	if r := replyOf(err.Error()); r != nil {
		return storekit.OfKind(r.kind, &refusal{err, *r}), r.kind != nil
	}
	return err, false
}

// refusal is an error of the server that replies explains.
type refusal struct {
	error
	reply
}

func (e *refusal) Unwrap() error { return e.error }

func (e *refusal) Error() string {
	s := strings.TrimSuffix(e.error.Error(), ".") + ": " + e.hint
	if e.client != "" {
		s += "; with go-redis: " + e.client
	}
	return s
}

// Advice is for storekit.Advice.
func (e *refusal) Advice() string { return e.doctor }

// unknownCommand is the error of a server that does not have a command. Its text names the command, without
// the arguments that are in the server's text.
type unknownCommand struct {
	error
	rest string // of the text, after "unknown command "
}

func (e *unknownCommand) Unwrap() error { return e.error }

func (e *unknownCommand) Error() string {
	name, rest, _ := strings.Cut(e.rest, ",")
	if _, more, ok := strings.Cut(rest, " : "); ok {
		name += ": " + more
	}
	return fmt.Sprintf("the server has no command %s: it is older than Redis 7, a proxy before it does not pass the command on, or the command is renamed or forbidden there, "+
		"as by rename-command and in some managed services; with Mode Efficiency (?mode=efficiency), where two may hold a lock, fewer commands are needed: see docs/managed-redis.md", name)
}

// Refused returns the server's answer if err is an error that the server has answered, else nil.
func Refused(err error) *rueidis.RedisError {
	var answer *rueidis.RedisError
	errors.As(err, &answer)
	return answer
}

// Behind is the error if the server has executed a request, and too few replicas have confirmed it.
type Behind struct{ Err error }

func (e *Behind) Error() string { return e.Err.Error() }

func (e *Behind) Unwrap() error { return e.Err }

// Classify returns the Failure for the error of a request. ctx is the context of that
// request. If a dial was given up because the context of another request ended, this
// request was not sent. rueidis.ErrClosing leaves the outcome open, since requests under
// way get it too when sentinels name another master.
func Classify(ctx context.Context, err error) *driver.Failure {
	var answer *rueidis.RedisError
	switch {
	case errors.As(err, &answer) && Partial(answer.Error()):
		explained, lasting := Explain(err)
		return &driver.Failure{Err: fmt.Errorf("%w: %w", driver.ErrUncertain, explained), Maybe: true, Lasting: lasting}
	case errors.As(err, &answer), undialled(err):
		return NotBound(ctx, err)
	case ctx.Err() != nil:
		return &driver.Failure{Err: ctx.Err(), Maybe: true, Silent: true}
	}
	return &driver.Failure{Err: fmt.Errorf("%w: %w", driver.ErrUncertain, err), Maybe: true, Silent: true}
}

// NotBound is Classify for an error with which the server has certainly not executed the
// request.
func NotBound(ctx context.Context, err error) *driver.Failure {
	switch {
	case ctx.Err() != nil:
		return &driver.Failure{Err: ctx.Err(), Silent: true}
	case undialled(err):
		if errors.Is(err, errTooMany) {
			return &driver.Failure{Err: storekit.OfKind(driver.ErrRefused, Unavailable(dialHint(err)))}
		}
		return &driver.Failure{Err: Unavailable(dialHint(err)), Silent: true}
	case errors.Is(err, context.DeadlineExceeded): // not the caller's
		return &driver.Failure{Err: Unavailable(fmt.Errorf("the server accepts connections, and does not answer: %w", err)), Silent: true}
	case errors.Is(err, io.EOF), strings.Contains(err.Error(), "connection reset"):
		return &driver.Failure{Err: Unavailable(fmt.Errorf("%w: the server has closed the connection: is it a Redis server, with TLS (rediss://) or without (redis://)?", err)), Silent: true}
	}
	explained, lasting := Explain(err)
	if Refused(err) == nil && !errors.Is(err, ErrReplica) {
		return &driver.Failure{Err: Unavailable(explained), Lasting: lasting, Silent: true}
	}
	return &driver.Failure{Err: storekit.OfKind(driver.ErrRefused, Unavailable(explained)), Lasting: lasting}
}

// Hopeless reports whether Dial used all its time before it returned err, so that dialling
// again would need as much time again.
func Hopeless(err error) bool {
	return errors.Is(err, errNoTLS) || errors.Is(err, context.DeadlineExceeded) || undialled(err) && strings.Contains(err.Error(), "i/o timeout")
}

// undialled reports whether err is an error of making a connection.
func undialled(err error) bool {
	var dial dialError
	var op *net.OpError
	return errors.As(err, &dial) || errors.As(err, &op) && op.Op == "dial"
}

// How a script ends the text of an error; see queue.lua.
const (
	written   = " script: something may be written"
	unwritten = " script: nothing was written"
)

// Partial reports whether text is the error of a script that may have failed half-way. Some scripts
// say in text whether they have written. Other scripts may have failed half-way, unless the error is one
// that occurs only at the first write of a script, such as a lack of memory.
func Partial(text string) bool {
	if !strings.Contains(text, "script:") || strings.HasSuffix(text, unwritten) {
		return false
	}
	if strings.HasSuffix(text, written) {
		return true
	}
	r := replyOf(text)
	return r == nil || r.prefix == "NOPERM" || r.prefix == "WRONGTYPE"
}

// scriptError is the error of a script, without the end of the text, which is only for Partial.
type scriptError struct{ error }

func (e scriptError) Unwrap() error { return e.error }

func (e scriptError) Error() string {
	return strings.TrimSuffix(strings.TrimSuffix(e.error.Error(), unwritten), written)
}

// Unavailable wraps err as driver.ErrUnavailable.
func Unavailable(err error) error {
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

// dialHint adds to an error of making a connection what to do about it.
func dialHint(err error) error {
	s := err.Error()
	switch {
	case errors.Is(err, errTooMany):
		err, _ = Explain(errTooMany)
		return err
	case strings.Contains(s, "connection refused"), strings.Contains(s, "no such file"):
		return fmt.Errorf("%w: is the server running, and is this its address?", err)
	case storekit.TLSHint(err) != "":
		return fmt.Errorf("%w: %s", err, storekit.TLSHint(err))
	case errors.Is(err, errNoTLS):
		return fmt.Errorf("%w within the connect timeout: if this port has no TLS, use redis:// instead of rediss://", err)
	case strings.Contains(s, "first record does not look like a TLS"):
		return fmt.Errorf("%w: this port has no TLS: use redis:// instead of rediss://", err)
	case strings.Contains(s, "no such host"):
		return fmt.Errorf("%w: check the name of the host", err)
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(s, "i/o timeout"):
		return fmt.Errorf("%w: no answer within the connect timeout: is a firewall in between?", err)
	}
	return err
}

// ErrReplica is the error if INFO says that the server is a replica.
var ErrReplica = errors.New("READONLY")

// IsReplica reports whether a server has refused a request because it is a replica.
func IsReplica(err error) bool {
	ret := Refused(err)
	return ret != nil && (strings.HasPrefix(ret.Error(), "READONLY") || strings.HasPrefix(ret.Error(), "MASTERDOWN"))
}

// Lacking adds the name of the missing right to err, if err says that the user lacks a right.
func Lacking(err error, right string) error {
	if err != nil && strings.HasPrefix(err.Error(), "NOPERM") {
		return fmt.Errorf("%w: give the user the right +%s", err, right)
	}
	return err
}

// WrongLength returns the error for an answer that has n parts instead of want.
func WrongLength(n, want int) error {
	return fmt.Errorf("the server's answer has %d parts; want %d", n, want)
}
