// SPDX-License-Identifier: Apache-2.0

//go:build pawltrace

// With this tag clients write down what they decide, in a file of the folder $PAWL_TRACE, and the scripts
// each of their steps to the log of the server. Package chaos holds that against the formulas of spec/proof.

package redlock

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/internal/steps"
)

func init() {
	for i, name := range map[int]string{proposeScript: "propose", endScript: "end"} {
		scripts[i].Text = steps.Traced(name, scripts[i].Text)
	}
}

func watched(d *Driver) driver.Driver {
	name := filepath.Join(os.Getenv("PAWL_TRACE"), fmt.Sprintf("%d-%p", os.Getpid(), d))
	out, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	// One write for each, so that what was decided before kill -9 is known.
	return &watchedDriver{d, &steps.Watch{Key: d.layout.Lock, Did: func(s steps.Decision) {
		line, err := json.Marshal(s)
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		if err != nil {
			panic(err)
		}
	}}}
}

type watchedDriver struct {
	*Driver
	watch *steps.Watch
}

func (d *watchedDriver) TryAcquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g, err := d.Driver.TryAcquire(ctx, req)
	return d.watch.Granted(req, g, err)
}

func (d *watchedDriver) Acquire(ctx context.Context, req *driver.Request) (driver.Grant, error) {
	g, err := d.Driver.Acquire(ctx, req)
	return d.watch.Granted(req, g, err)
}
