// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// watcher is a driver whose store's clock the test sets.
type watcher struct {
	driver.Driver
	stepped func(server string, by time.Duration)
}

func (w *watcher) OnStep(f func(string, time.Duration)) { w.stepped = f }

func TestClockOfTheStoreIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &watcher{Driver: new(memlock.Store).Driver()}
		var log bytes.Buffer
		var told []pawl.Event
		open(t, d, &pawl.Options{
			Logger:   slog.New(slog.NewTextHandler(&log, nil)),
			Observer: pawl.Observer{Stepped: func(e pawl.Event) { told = append(told, e) }},
		})
		d.stepped("redis-7", -time.Hour)
		synctest.Wait()
		if len(told) != 1 || told[0].Server != "redis-7" || told[0].Step != -time.Hour {
			t.Errorf("the observer was told %+v; want a step of -1h of redis-7", told)
		}
		if text := log.String(); !strings.Contains(text, "forward=-1h") || !strings.Contains(text, "redis-7") {
			t.Errorf("the log says %q; want the step and the server", text)
		}
	})
}
