// SPDX-License-Identifier: Apache-2.0

package run

import (
	"errors"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

const electHelp = `Have COMMAND run in one place at a time, wherever "pawl elect NAME" is called:
one of the callers leads and runs it, the others wait to take its place. If the
lead is lost, the command is stopped as with "pawl run", and pawl stands for
election again. Each term has a larger PAWL_TOKEN than the one before it.

When the command ends by itself, pawl resigns and exits with its code. With
--max-hold a term is limited, and another gets its turn then if one waits.

The flags, the environment of the command and the exit codes are those of
"pawl run", but that it waits for ever and goes on when the lock is lost.`

const (
	minElectPause = 100 * time.Millisecond
	maxElectPause = 5 * time.Second
)

// terms leads again and again, until the command ends by itself. An outage of the
// store ends it only if the store was not heard of before.
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
		r.Note(strings.TrimSuffix(f.Line(), "; "+f.Hint) + "; standing for election again")
		if time.Since(began) > time.Minute {
			pause = minElectPause
		}
		if err := r.rest(pause); err != nil {
			return 0, err
		}
		pause = min(2*pause, maxElectPause)
	}
}

// rest waits for d, or until a signal ends us.
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
