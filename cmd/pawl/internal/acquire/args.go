// SPDX-License-Identifier: Apache-2.0

package acquire

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
	"github.com/pawl-go/pawl/driver"
	"github.com/spf13/pflag"
)

// Args are the arguments of a command that takes a lease.
type Args struct {
	*cli.App
	Verb       string // the first word of the command line, such as run
	Name       string
	Wait       cli.Wait
	InDeadlock bool // wait even in a deadlock
	TTL        time.Duration
	MaxHold    time.Duration
	Shared     bool
	Slots      int
	Apart      bool // the lease outlives the process
	Why, Who   string
	Quiet      bool
	Events     string
	BusyCode   int

	canWait bool // the command has --wait
}

// WaitFlags adds --wait, --no-wait and --wait-in-deadlock.
func (a *Args) WaitFlags(fs *pflag.FlagSet) {
	a.canWait = true
	a.Wait.Flags(fs)
	fs.BoolVar(&a.InDeadlock, "wait-in-deadlock", false, "keep waiting in a deadlock")
}

// KindFlags adds --shared and --slots.
func (a *Args) KindFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&a.Shared, "shared", false, "share the lock with others that use --shared")
	fs.IntVar(&a.Slots, "slots", 0, "let `N` hold the lock at a time; all have to use the same number")
}

// PersonFlags adds --why and --who.
func (a *Args) PersonFlags(fs *pflag.FlagSet, why string) {
	fs.StringVar(&a.Why, "why", "", why)
	fs.StringVar(&a.Who, "who", os.Getenv("PAWL_WHO"), "`TEXT` that others see instead of user and host (default $PAWL_WHO)")
}

// EventFlags adds --events.
func (a *Args) EventFlags(fs *pflag.FlagSet) {
	fs.StringVar(&a.Events, "events", "", "write events as JSON lines to `FILE`, or fd:N")
}

// Check checks the arguments that the flag parser cannot check. For the flags of KindFlags,
// call CheckKind as well.
func (a *Args) Check() error {
	if err := stores.CheckName(a.Name, a.App.Store); err != nil {
		return err
	}
	if err := a.Wait.Check(); err != nil {
		return err
	}
	if len(a.Why) > 512 || strings.ContainsRune(a.Why, 0) {
		return exit.Usage("--why is longer than 512 bytes, or contains a NUL", "use a shorter text without NUL")
	}
	if a.TTL < driver.MinTTL {
		return exit.Usage(fmt.Sprintf("--ttl %v is too short", a.TTL),
			fmt.Sprintf("use at least %v; 10s to 60s suits most work", driver.MinTTL))
	}
	return nil
}

// CheckKind checks the flags of KindFlags.
func (a *Args) CheckKind(fs *pflag.FlagSet) error {
	if a.Shared && fs.Changed("slots") {
		return exit.Usage("--shared and --slots cannot be used together", "use one of them")
	}
	if fs.Changed("slots") && a.Slots < 1 {
		return exit.Usage(fmt.Sprintf("--slots %d is too few", a.Slots), "use 1 or more")
	}
	return nil
}

// pid returns the process id that other users see. It is the id of our parent for a lease that
// outlives this process.
func (a *Args) pid() int {
	if parent := os.Getppid(); a.Apart && parent > 1 {
		return parent
	}
	return os.Getpid()
}
