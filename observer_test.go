// SPDX-License-Identifier: Apache-2.0

package pawl_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
)

// newsman is a driver that reports the news that the test gives it.
type newsman struct {
	driver.Driver
	tell func(driver.News)
}

func (n *newsman) OnNews(f func(driver.News)) { n.tell = f }

func TestNewsOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &newsman{Driver: new(memlock.Store).Driver()}
		var log bytes.Buffer
		var told []pawl.Event
		open(t, d, &pawl.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Observer: pawl.Observer{
				Stepped: func(e pawl.Event) { told = append(told, e) },
				Closed:  func(e pawl.Event) { told = append(told, e) },
			},
		})
		d.tell(driver.News{Server: "redis-7", Step: -time.Hour})
		d.tell(driver.News{Server: "redis-8", Closed: time.Minute})
		synctest.Wait()
		want := []pawl.Event{{Server: "redis-7", Step: -time.Hour}, {Server: "redis-8", Left: time.Minute}}
		if !slices.Equal(told, want) {
			t.Errorf("the observer was told %+v; want %+v", told, want)
		}
		for _, part := range []string{"forward=-1h", "redis-7", "left=1m", "redis-8"} {
			if !strings.Contains(log.String(), part) {
				t.Errorf("the log says %q; want %q", log.String(), part)
			}
		}
	})
}
