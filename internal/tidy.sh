#!/usr/bin/env bash
# tidy.sh [--check] MODULE... runs go mod tidy on each module. With --check it changes
# nothing, and fails if a go.mod or go.sum is not tidy. Our modules require one another at
# a version that is not published, and only go.work says that the version is in this
# tree. So tidy.sh works on a copy of go.mod that replaces the others by their folders.
# go.sum has no lines for our own modules, because unpublished modules have no sums.
set -euo pipefail
cd "$(dirname "$0")/.."
top=$PWD check= next=
if [ "${1-}" = --check ]; then check=1; shift; fi
fail() { echo "$1" >&2; exit 1; }
for module in "$@"; do
	path=$(sed -n 's/^module //p' "$module/go.mod")
	version=$(sed -n "s,^[[:space:]]*$path \(v[^ ]*\) => \./.*,\1,p" go.work)
	[ -n "$version" ] || fail "go.work has no line '$path VERSION => ./$module'"
	[ "${next:=$version}" = "$version" ] || fail "go.work has $path at $version, others at $next"
done
own="$(sed -n 's/^module //p' go.mod)[^ ]* v"
for module in "$@"; do
	if grep -H "$own" "$module/go.mod" | grep -v " $next\( //.*\)\{0,1\}$" >&2; then fail "go.work has our modules at $next"; fi
done
export GOWORK=off
status=0
for module in "$@"; do
	cd "$top/$module"
	mod=tidy.tmp.mod sum=tidy.tmp.sum
	trap 'rm -f "$PWD/$mod" "$PWD/$sum"' EXIT
	cp go.mod "$mod"
	touch go.sum "$sum"
	cp go.sum "$sum"
	others=()
	for other in "$@"; do
		path=$(sed -n 's/^module //p' "$top/$other/go.mod")
		[ "$other" = "$module" ] || others+=("$path@$next")
		[ "$other" = "$module" ] || go mod edit -replace "$path@$next=$top/$other" "$mod"
	done
	go mod tidy -modfile="$mod"
	go mod edit "${others[@]/#/-dropreplace=}" "$mod"
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
