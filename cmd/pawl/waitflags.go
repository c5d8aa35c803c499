// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

func (a *runArgs) waitFlags(fs *pflag.FlagSet) {
	fs.VarP((*durationValue)(&a.wait), "wait", "w", "wait at most this `DURATION` for the lock, such as 5m; 5 is five seconds (default for ever, as long as the store answers)")
	fs.BoolVarP(&a.noWait, "no-wait", "n", false, "do not wait: the same as --wait 0")
	fs.BoolVar(&a.inDeadlock, "wait-in-deadlock", false, "keep waiting in a deadlock")
}

// durationVar is a flag for a duration.
func durationVar(fs *pflag.FlagSet, d *time.Duration, name string, unless time.Duration, usage string) {
	*d = unless
	fs.Var((*durationValue)(d), name, usage)
}

// durationValue is a duration that is not negative, unlike its default.
type durationValue time.Duration

func (v *durationValue) Set(s string) error {
	d, err := parseDuration(s)
	if err == nil && d < 0 {
		err = errNegative
	}
	*v = durationValue(d)
	return err
}

// parseDuration takes a number alone as seconds, as flock(1), timeout(1) and sleep(1) do.
func parseDuration(s string) (time.Duration, error) {
	if s != "" && strings.Trim(s, "-0123456789.") == "" {
		s += "s"
	}
	return time.ParseDuration(s)
}

var errNegative = errors.New("it is negative")

func (v *durationValue) Type() string { return "duration" }

// String returns the default as the help shows it: nothing if it is "" or 0.
func (v *durationValue) String() string {
	switch {
	case *v < 0:
		return ""
	case *v == 0:
		return "0"
	}
	return time.Duration(*v).String()
}
