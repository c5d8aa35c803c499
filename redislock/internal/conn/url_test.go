// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"crypto/tls"
	"strings"
	"testing"
)

// TestParseRefuses: what would be left out, or shown by the errors of connections, is
// refused, and not shown.
func TestParseRefuses(t *testing.T) {
	for _, url := range []string{
		"redis://:pw@host?addr=:s3cret@host2:7000",
		"redis://:pw@host?addr=redis://:s3cret@host2:7000&addr=host3",
		"redis://host?wait_replicas=1;prefix=s3cret",
		"redis://host?max_ttl=1h&sentinel_password=s3cret%",
		"redis://me:some@s3cret/more@host",
		"redis://me:some@s3cret?more@host",
	} {
		if p, err := Parse(url, Options{}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Parse(%q) = %+v, %v; want an error without the password", url, p, err)
		}
	}
	if _, err := Parse("redis://host?addr=host2:7000&addr=[::1]:7001&addr=host3", Options{}); err != nil {
		t.Errorf("Parse = %v", err)
	}
}

// TestShown: errors and logs name a place by a URL that can be typed.
func TestShown(t *testing.T) {
	for url, want := range map[string]string{
		"redis://": "redis://", "rediss://me:s3cret@h1:7000/2?prefix=x:": "rediss://h1:7000/2", "unix:///run/r%20s.sock": "unix:///run/r%20s.sock",
	} {
		if p, err := Parse(url, Options{}); err != nil || p.Shown != want {
			t.Errorf("%s is shown as %+v (%v), want %s", url, p, err, want)
		}
	}
}

// TestServerName: what the URL says about TLS leaves the rest of it as it is.
func TestServerName(t *testing.T) {
	p := &Place{Options: Options{TLS: &tls.Config{ServerName: "other"}}}
	for query, want := range map[string]string{"": "other", "mine": "mine"} {
		if err := p.params("server_name=" + query); err != nil || p.TLS.ServerName != want {
			t.Errorf("with server_name=%s the name is %q, %v; want %q", query, p.TLS.ServerName, err, want)
		}
		p.TLS = &tls.Config{ServerName: "other"}
	}
}
