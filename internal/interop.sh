#!/usr/bin/env bash
# interop.sh runs the tests with lock libraries that only npm has. Needs node and npm.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in node npm; do
	command -v "$program" >/dev/null || { echo "missing: apt-get install nodejs npm" >&2; exit 1; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
npm install --prefix "$dir" --silent --no-audit --no-fund ioredis@5.11.1 redlock4@npm:redlock@4.2.0 redlock5@npm:redlock@5.0.0-beta.2
go vet -tags interop ./redislock
PAWL_NODE_MODULES=$dir/node_modules go test -race -count=1 -tags interop -run TestNodeRedlock -v ./redislock
