// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServerName: TLS parameters of the URL leave the rest of the options as they are.
func TestServerName(t *testing.T) {
	for query, want := range map[string]string{"server_name=": "other", "server_name=mine": "mine", "": "other"} {
		var files TLSFiles
		if err := ReadQuery(query, files.Params()...); err != nil || files.Given != (query != "") {
			t.Fatalf("%s: %v, %v", query, files.Given, err)
		}
		own := &tls.Config{ServerName: "other", MinVersion: tls.VersionTLS13}
		conf, err := files.Apply(own)
		if err != nil || conf.ServerName != want || conf.MinVersion != tls.VersionTLS13 || own.ServerName != "other" {
			t.Errorf("%q: %+v, %v; want the name %q", query, conf, err, want)
		}
	}
}

func TestWrongTLSFiles(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"ca_file=" + dir + "/none":                    "no such file",
		"ca_file=" + empty:                            "contains no certificate",
		"cert_file=" + empty:                          "no such file",
		"cert_file=" + empty + "&key_file=" + empty:   "failed to find any PEM data",
		"key_file=" + empty + "&server_name=whatever": "no such file",
	} {
		var files TLSFiles
		if err := ReadQuery(query, files.Params()...); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Apply(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", query, err, want)
		}
	}
}
