#!/usr/bin/env bash
# fuzz.sh TIME MODULE... runs every fuzz target of the modules for TIME each.
set -euo pipefail
cd "$(dirname "$0")/.."
time=$1
shift
for module in "$@"; do
	go list -f '{{.ImportPath}} {{.Dir}}' "./$module/..." | while read -r package dir; do
		{ grep -hos "^func Fuzz[A-Za-z0-9_]*" "$dir"/*_test.go || true; } | sed "s/^func //" | while read -r target; do
			go test -run '^$' -fuzz "^$target\$" -fuzzminimizetime 1s -fuzztime "$time" "$package"
		done
	done
done
