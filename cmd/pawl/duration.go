// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// durationVar is a flag for a duration.
func durationVar(fs *pflag.FlagSet, d *time.Duration, name string, unless time.Duration, usage string) {
	*d = unless
	fs.Var((*Duration)(d), name, usage)
}

// forEver is how long somebody waits who has not said for how long.
const forEver = time.Duration(-1)

// Duration is a duration that is not negative, unlike its default.
type Duration time.Duration

func (v *Duration) Set(s string) error {
	d, err := parseDuration(s)
	if err == nil && d < 0 {
		err = errNegative
	}
	*v = Duration(d)
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

func (v *Duration) Type() string { return "duration" }

// String returns the default as the help shows it: nothing if it is "" or 0.
func (v *Duration) String() string {
	switch {
	case *v < 0:
		return ""
	case *v == 0:
		return "0"
	}
	return time.Duration(*v).String()
}
