// SPDX-License-Identifier: Apache-2.0

package otelpawl_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
	"github.com/pawl-go/pawl/memlock"
	"github.com/pawl-go/pawl/metrics/internal/measure"
	"github.com/pawl-go/pawl/metrics/otelpawl"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
)

// first is the part of a name before the first slash.
func first(name string) string {
	class, _, _ := strings.Cut(name, "/")
	return class
}

// news is a store that reports what the test tells it.
type news struct {
	driver.Store
	tell func(driver.News)
}

func (n *news) Listen(f func(driver.Event)) {
	n.Store.Listen(f)
	n.tell = func(news driver.News) { f(driver.Event{Kind: driver.Told, News: news}) }
}

func open(t *testing.T, d driver.Store, o pawl.Observer) *pawl.Client {
	t.Helper()
	c, err := pawl.New(d, &pawl.Options{TTL: 9 * time.Second, Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// metrics returns an Observer, and what reads its metrics once it has been told of all events.
func metrics(t *testing.T, class func(string) string) (pawl.Observer, func() map[string]string) {
	t.Helper()
	reader := sdk.NewManualReader()
	o, err := otelpawl.Metrics(&otelpawl.Options{Class: class, MeterProvider: sdk.NewMeterProvider(sdk.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	return o, func() map[string]string {
		t.Helper()
		synctest.Wait()
		var all metricdata.ResourceMetrics
		if err := reader.Collect(context.Background(), &all); err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, s := range all.ScopeMetrics {
			for _, m := range s.Metrics {
				maps.Copy(values, points(t, m))
			}
		}
		return values
	}
}

// points returns the values of a metric, each by name, unit and attributes.
func points(t *testing.T, m metricdata.Metrics) map[string]string {
	values := map[string]string{}
	add := func(set attribute.Set, format string, args ...any) {
		values[m.Name+"/"+m.Unit+" "+set.Encoded(attribute.DefaultEncoder())] = fmt.Sprintf(format, args...)
	}
	switch d := m.Data.(type) {
	case metricdata.Histogram[float64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, "%d, %.4g", p.Count, p.Sum)
		}
	case metricdata.Sum[int64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, "%d", p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range d.DataPoints {
			add(p.Attributes, "%.4g", p.Value)
		}
	default:
		t.Errorf("%s is a %T", m.Name, d)
	}
	return values
}

func want(t *testing.T, got map[string]string, key, value string) {
	t.Helper()
	if got[key] != value {
		t.Errorf("%s is %q; want %q, in %v", key, got[key], value, got)
	}
}

// The name itself is nowhere unless it is asked for, and without a class there is no such attribute.
func TestNamesAreSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, read := metrics(t, nil)
		c := open(t, new(memlock.Store).Participant(), o)
		if _, err := c.Acquire(t.Context(), "secret/1", pawl.Slots(2)); err != nil {
			t.Error(err)
		}
		got := read()
		want(t, got, "pawl.held/{lease} kind=slots", "1")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		got = read()
		want(t, got, "pawl.waiting/{call} kind=slots", "0")
		want(t, got, "pawl.held/{lease} kind=slots", "0")
		if strings.Contains(fmt.Sprint(got), "secret") {
			t.Errorf("a name is told: %v", got)
		}
	})
}

// All that is measured is there, with its labels.
func TestEveryInstrument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, read := metrics(t, first)
		d := &news{Store: new(memlock.Store).Participant()}
		c := open(t, d, o)
		l, err := c.Acquire(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		d.tell(driver.News{Server: "redis-7", Step: -time.Hour})
		d.tell(driver.News{Server: "redis-7", Step: time.Second})
		d.tell(driver.News{Server: "redis-7", Closed: time.Minute})
		d.tell(driver.News{Server: "redis-8", Silent: time.Second})
		time.Sleep(20 * time.Second)
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		got := read()
		want(t, got, "pawl.store.clock.steps/{step} direction=back,server=redis-7", "1")
		want(t, got, "pawl.store.clock.steps/{step} direction=forward,server=redis-7", "1")
		want(t, got, "pawl.store.quarantine/s server=redis-7", "40")
		want(t, got, "pawl.store.silent/s server=redis-8", "21")
		for _, i := range measure.Instruments {
			found := false
			for key := range got {
				if strings.HasPrefix(key, i.Name+"/"+i.Unit+" ") {
					found = true
					for _, label := range i.Labels {
						if !strings.Contains(key, label+"=") {
							t.Errorf("%s has no %s", key, label)
						}
					}
				}
			}
			if !found {
				t.Errorf("there is no %s in %v", i.Name, got)
			}
		}
		time.Sleep(time.Minute) // both are over
		got = read()
		want(t, got, "pawl.store.quarantine/s server=redis-7", "0")
		want(t, got, "pawl.store.silent/s server=redis-8", "0")
	})
}
