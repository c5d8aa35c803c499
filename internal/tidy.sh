#!/usr/bin/env bash
# tidy.sh [--check] MODULE... keeps go.mod and go.sum right, and with --check
# only says which are not. Our own modules are not published yet, and no version
# of them can be required: go.work finds them. So each module is tidied on a copy
# of its go.mod that finds them in this tree, and their lines are dropped after.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD check=
if [ "${1-}" = --check ]; then check=1; shift; fi
export GOWORK=off
status=0
for module in "$@"; do
	cd "$top/$module"
	mod=tidy.tmp.mod sum=tidy.tmp.sum
	trap 'rm -f "$PWD/$mod" "$PWD/$sum"' EXIT
	cp go.mod "$mod"
	touch go.sum "$sum"
	cp go.sum "$sum"
	for other in "$@"; do
		path=$(sed -n 's/^module //p' "$top/$other/go.mod")
		[ "$other" = "$module" ] || go mod edit -replace "$path=$top/$other" "$mod"
	done
	go mod tidy -modfile="$mod"
	for other in "$@"; do
		path=$(sed -n 's/^module //p' "$top/$other/go.mod")
		[ "$other" = "$module" ] || go mod edit -dropreplace "$path" -droprequire "$path" "$mod"
	done
	if [ -n "$check" ]; then
		if ! cmp -s "$mod" go.mod || ! cmp -s "$sum" go.sum; then
			echo "$module: go.mod or go.sum is not tidy: run make tidy" >&2
			status=1
		fi
	else
		cp "$mod" go.mod
		cp "$sum" go.sum
	fi
	rm -f "$mod" "$sum"
	[ -s go.sum ] || rm -f go.sum
done
exit $status
