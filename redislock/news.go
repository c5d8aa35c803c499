// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// OnNews implements driver.Reporter.
func (s *store) OnNews(f func(driver.News)) { s.news.To(f) }

func (s *store) stepped(addr string, by time.Duration) {
	s.news.Put(driver.News{Server: addr, Step: by})
}

func (s *store) closed(addr string, left time.Duration) {
	s.news.Put(driver.News{Server: addr, Closed: left})
}

func (s *store) silent(addr string, since time.Duration) {
	s.news.Put(driver.News{Server: addr, Silent: since})
}
