// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"time"

	"github.com/pawl-go/pawl/driver"
)

// news passes events to the function of OnNews, or keeps them until there is one.
type news struct {
	tell func(driver.News)
	kept []driver.News
}

// OnNews implements driver.Reporter.
func (s *store) OnNews(f func(driver.News)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.news.tell = f
	for _, n := range s.news.kept {
		f(n)
	}
	s.news.kept = nil
}

func (s *store) report(n driver.News) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news.tell == nil {
		s.news.kept = append(s.news.kept, n)
	} else {
		s.news.tell(n)
	}
}

func (s *store) stepped(addr string, by time.Duration) {
	s.report(driver.News{Server: addr, Step: by})
}

func (s *store) closed(addr string, left time.Duration) {
	s.report(driver.News{Server: addr, Closed: left})
}

func (s *store) silent(addr string, since time.Duration) {
	s.report(driver.News{Server: addr, Silent: since})
}
