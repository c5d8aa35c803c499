// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pawl-go/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-go/pawl/cmd/pawl/internal/display"
	"github.com/pawl-go/pawl/cmd/pawl/internal/exit"
)

type serveFlags struct {
	Options
	listen string
	token  string // file
	cert   string // file
	key    string // file
	stores []string
}

func Command(a *cli.App) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show locks in a browser",
		Long: `Serve shows the locks of one or more stores in a browser: who holds what and who
waits, with a time line of leases and waits. It changes nothing, unless
--allow-break lets everybody who has the token break leases.

It keeps up to 4 MB of history, from its start on. It asks each store once a
second while somebody looks, and every 30s otherwise.

Everybody who can reach the address sees the locks. The default address is
local to this machine; one that others can reach needs --token-file. Without
--tls-cert nothing is encrypted: from another machine use ssh -L
7295:127.0.0.1:7295, or a proxy with TLS.

  /              the page
  /api/locks     what pawl ls --json prints, for all stores
  /api/events    the same, then each change, as server-sent events
  /api/break     ends a lease, with --allow-break
  /metrics       for Prometheus, without names of locks
  /healthz       ok while serve runs; needs no token`,
		Example: `  pawl serve                         then open http://127.0.0.1:7295/
  pawl serve -s redis://h1 -s etcd://h2:2379
  pawl serve --listen :7295 --token-file /etc/pawl/token
  pawl serve --listen unix:/run/pawl.sock   for you alone, or a proxy`,
		Args:              cli.Args(0, 0, "see pawl serve --help"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return listenAndServe(a, cmd.Context(), &f) },
	}
	fs := cmd.Flags()
	cli.StoresVar(fs, &f.stores)
	fs.StringVar(&f.listen, "listen", "127.0.0.1:7295", "`ADDRESS`, HOST:PORT or unix:/PATH")
	fs.StringVar(&f.token, "token-file", "", "`FILE` with the token that clients have to send")
	fs.StringVar(&f.cert, "tls-cert", "", "`FILE` with the certificate and its chain, in PEM")
	fs.StringVar(&f.key, "tls-key", "", "`FILE` with its key")
	fs.StringArrayVar(&f.Hosts, "host", nil, "host `NAME` that browsers use, as for a proxy; may be repeated")
	fs.BoolVar(&f.Break, "allow-break", false, "let everybody who has the token break leases")
	return cmd
}

func listenAndServe(a *cli.App, ctx context.Context, f *serveFlags) error {
	sources, err := a.Sources(f.stores)
	if err != nil {
		return err
	}
	if f.token != "" {
		if f.Token, err = readToken(f.token); err != nil {
			return err
		}
	}
	network, address, err := f.address()
	if err != nil {
		return err
	}
	if f.Certificate, err = f.certificate(); err != nil {
		return err
	}
	l, err := Listen(network, address)
	if err != nil {
		return exit.Fail(exit.System, "cannot listen: "+err.Error(), "name another address, such as --listen 127.0.0.1:7296")
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprintln(a.Stdout, "listening at "+where(l.Addr(), f.Certificate != nil))
	return New(sources, f.Options).Run(ctx, l)
}

// address returns where to listen. It returns an error if other machines could reach the address and there is no token.
func (f *serveFlags) address() (network, address string, err error) {
	path, unix := strings.CutPrefix(f.listen, "unix:")
	if path != "" && unix {
		return "unix", path, nil
	}
	if f.Break && f.token == "" {
		return "", "", exit.Usage("--allow-break without a token lets every user of this machine break leases", "add --token-file FILE, or listen at unix:/PATH")
	}
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil || unix {
		return "", "", exit.Usage(fmt.Sprintf("--listen %q is not an address", display.Shorten(f.listen, 80)), "use HOST:PORT, such as 127.0.0.1:7295, or unix:/PATH")
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) && f.token == "" {
		return "", "", exit.Usage(fmt.Sprintf("--listen %s lets other machines see all locks", f.listen),
			"add --token-file FILE, or listen at 127.0.0.1 or unix:/PATH")
	}
	if err != nil {
		f.Hosts = append(f.Hosts, host)
	}
	return "tcp", f.listen, nil
}

// minToken is the least length of a token: shorter ones could be guessed.
const minToken = 16

func readToken(file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", exit.Fail(exit.Config, err.Error(), "make it with: (umask 077; openssl rand -hex 32 >"+display.Quote(file)+")")
	}
	if st, err := os.Stat(file); err == nil && st.Mode().Perm()&0o007 != 0 && runtime.GOOS != "windows" {
		return "", exit.Fail(exit.Config, "all users of this machine can read "+file+", or write to it", "chmod 600 "+display.Quote(file))
	}
	token := strings.TrimSpace(string(b))
	if len(token) < minToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", exit.Fail(exit.Config, fmt.Sprintf("the token in %s is not one word of %d letters and digits or more", file, minToken),
			"make it with: openssl rand -hex 32")
	}
	return token, nil
}

// certificate returns the certificate of --tls-cert and --tls-key, or nil without them.
func (f *serveFlags) certificate() (*tls.Certificate, error) {
	switch {
	case f.cert == "" && f.key == "":
		return nil, nil
	case f.cert == "" || f.key == "":
		return nil, exit.Usage("one of --tls-cert and --tls-key is missing", "name both files")
	}
	cert, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, exit.Fail(exit.Config, err.Error(), "name a certificate and its key, both in PEM")
	}
	return &cert, nil
}

// where returns the address of the page, for people.
func where(a net.Addr, encrypted bool) string {
	switch {
	case a.Network() == "unix":
		return "unix:" + a.String()
	case encrypted:
		return "https://" + a.String() + "/"
	}
	return "http://" + a.String() + "/"
}
