// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

const electHelp = `Elect keeps COMMAND running in one place. Of all callers of "pawl elect NAME"
one leads and runs COMMAND; the others wait to take over. A leader that loses
the lock stops COMMAND, as pawl run does, and waits for the lock again. Each
term has a larger PAWL_TOKEN.

When COMMAND ends by itself, pawl exits with its code, and another caller leads.
--max-hold limits a term, so that another caller can lead.

Elect has the flags, environment and exit codes of pawl run, but always waits,
and goes on after a lost lock.`

const (
	minElectPause = 100 * time.Millisecond
	maxElectPause = 5 * time.Second
)

// terms leads again and again, until the command ends by itself. If the store is
// unavailable, it goes on only if the store has answered before.
func (r *runner) terms(path string) (int, error) {
	pause := minElectPause
	for {
		began := time.Now()
		code, err := r.once(path)
		var f *exit.Failure
		if !errors.As(err, &f) {
			return code, err
		}
		if f.Kind != exit.Kinds[exit.Lost] && !(r.Known && f.Kind == exit.Kinds[exit.Unavailable]) {
			return code, err
		}
		r.Note(strings.TrimSuffix(f.Line(), "; "+f.Hint) + "; waiting to lead again")
		if time.Since(began) > time.Minute {
			pause = minElectPause
		}
		if err := r.rest(pause); err != nil {
			return 0, err
		}
		pause = min(2*pause, maxElectPause)
	}
}

// rest waits for d. It returns an error if a signal ends pawl.
func (r *runner) rest(d time.Duration) error {
	over := time.After(d)
	for {
		select {
		case sig := <-r.Signals:
			if err := r.Signalled(sig); err != nil {
				return err
			}
		case <-over:
			return nil
		}
	}
}
