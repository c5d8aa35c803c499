// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"slices"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
	"github.com/pawl-go/pawl/cmd/pawl/internal/history"
	"github.com/pawl-go/pawl/cmd/pawl/internal/stores"
)

// Sources returns a source for each of urls. It opens each store once, to find mistakes in the URLs. A store that is
// unavailable is not an error, because it may come back.
func (a *App) Sources(urls []string) ([]*history.Source, error) {
	if len(urls) == 0 {
		urls = []string{""}
	}
	var all []*history.Source
	for _, url := range urls {
		first, err := stores.Open(url, a.Connect, &pawl.Options{}, false)
		if f := new(exit.Failure); errors.As(err, &f) && f.Code != exit.Unavailable {
			return nil, err
		}
		u, err := stores.Chosen(url)
		if err != nil {
			return nil, err
		}
		if first != nil {
			u = first.URL // it names the default directory, if the store is that
		}
		name := u.String()
		if slices.ContainsFunc(all, func(s *history.Source) bool { return s.Name == name }) {
			return nil, exit.Usage("--store names "+name+" twice", "leave one out")
		}
		all = append(all, &history.Source{Name: name, Open: func() (*pawl.Client, error) {
			s := first
			if first = nil; s == nil {
				var err error
				if s, err = stores.Open(url, a.Connect, &pawl.Options{}, false); err != nil {
					return nil, err
				}
			}
			return s.Client, nil
		}})
	}
	return all, nil
}
