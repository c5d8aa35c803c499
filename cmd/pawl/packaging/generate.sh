#!/usr/bin/env bash
# generate.sh DIR writes the manual pages and completions for the packages.
set -euo pipefail
dir=$(realpath -m "$1")
cd "$(dirname "$0")/.."
rm -rf "$dir"
mkdir -p "$dir/man" "$dir/completions"
CGO_ENABLED=0 go build -tags grpcnotrace -o "$dir/pawl" .
"$dir/pawl" man "$dir/man"
gzip -n -9 "$dir"/man/*.1
for shell in bash zsh fish; do
	"$dir/pawl" completion "$shell" >"$dir/completions/pawl.$shell"
done
rm "$dir/pawl"
