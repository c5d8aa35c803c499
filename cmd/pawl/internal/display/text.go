// SPDX-License-Identifier: Apache-2.0

// Package display formats text for people: command lines, holders, tables.
package display

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-go/pawl"
	"github.com/pawl-go/pawl/driver"
)

// maxCommand is how many bytes of a command line other users see.
const maxCommand = 200

// CommandLine returns words as a user would type them in a shell, shortened to maxCommand.
func CommandLine(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return Shorten(strings.ToValidUTF8(strings.Join(quoted, " "), "\uFFFD"), maxCommand)
}

// withSubcommands are programs whose first argument is a subcommand. The first argument of any other program may be a
// password.
var withSubcommands = strings.Fields(`alembic ansible-galaxy apt apt-get argocd aws az borg brew bundle cargo certbot cmake composer
conda crontab dnf docker dotnet dvc flux flyway gcloud gh git go goose gradle gradlew gsutil helm helmfile just kubectl kustomize
liquibase make migrate mvn mvnw nix nomad npm npx packer pawl pip pipenv pm2 pnpm podman poetry prisma pulumi rails rake rclone
restic rustup sam serverless skaffold snap supervisorctl systemctl task terraform terragrunt tofu uv vagrant vault yarn yum zypper`)

// PublicCommand returns the part of a command line that every user may see: the program and its
// subcommand. Flags and other arguments may contain passwords.
func PublicCommand(words []string) string {
	program := strings.TrimSuffix(path.Base(filepath.ToSlash(words[0])), ".exe")
	if len(words) > 1 && slices.Contains(withSubcommands, program) && isWord(words[1]) {
		return CommandLine(words[:2])
	}
	return CommandLine(words[:1])
}

// isWord reports whether s looks like a subcommand, such as db-migrate or db:migrate.
func isWord(s string) bool {
	other := func(r rune) bool { return !('a' <= r && r <= 'z' || r == '-' || r == '_' || r == ':') }
	return len(s) <= 32 && s != "" && s[0] != '-' && strings.IndexFunc(s, other) < 0
}

func Quote(s string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-./:=@%+,^", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// Shorten cuts valid UTF-8 to at most n bytes.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const dots = "…"
	end := n - len(dots)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + dots
}

// Printable replaces characters that could control the terminal. Other users write much
// of the text that pawl prints.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) && r != ' ' {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// HeldBy describes the holder of a lock, as in: held by alice@ci-7 (pid 812, "make") for 3m12s, token 41.
func HeldBy(info *pawl.Info) string {
	if info == nil || len(info.Holders) == 0 {
		return "held by somebody else"
	}
	return (&pawl.HeldError{Info: info}).Error()
}

// Kind describes the kind of a lease, or returns "" if it is exclusive.
func Kind(shared bool, slots int) string {
	switch {
	case shared:
		return "shared"
	case slots > 0:
		return fmt.Sprintf("one of %d slots", slots)
	}
	return ""
}

// Age formats the time since t, or "-" if it is not known.
func Age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return driver.Ago(t)
}

// InSeconds rounds d up to seconds, so that a short time does not become 0s.
func InSeconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// Rounded rounds d to about three digits.
func Rounded(d time.Duration) time.Duration {
	for unit := time.Nanosecond; ; unit *= 10 {
		if d < 1000*unit {
			return d.Round(unit)
		}
	}
}

// Wrap breaks text into lines of at most Width characters. Each line but the first begins with indent; the
// caller prints something as wide before the first.
func Wrap(text, indent string) string {
	var b strings.Builder
	column := len(indent)
	for i, word := range strings.Fields(text) {
		switch n := utf8.RuneCountInString(word); {
		case i == 0:
			column += n
		case column+1+n > Width:
			b.WriteString("\n" + indent)
			column = len(indent) + n
		default:
			b.WriteString(" ")
			column += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}

// Width is the greatest width of the help, in characters. It fits narrow terminals, mail
// and manual pages.
const Width = 80
