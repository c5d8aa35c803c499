#!/usr/bin/env bash
# interop.sh runs the tests with lock libraries from npm, and with Curator from Debian. It
# needs node, npm, and java with its compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in node npm javac; do
	command -v "$program" >/dev/null || { echo "missing: apt-get install nodejs npm default-jdk-headless" >&2; exit 1; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
(cd "$dir" && apt-get download -qq -o APT::Sandbox::User=root libcurator-{client,framework,recipes}-java)
for deb in "$dir"/*.deb; do dpkg-deb -x "$deb" "$dir"; done
PAWL_CURATOR=$dir/usr/share/java go test -count=1 -tags interop -run TestCurator -v ./lab/bench
npm install --prefix "$dir" --silent --no-audit --no-fund ioredis@5.11.1 redlock4@npm:redlock@4.2.0 redlock5@npm:redlock@5.0.0-beta.2
PAWL_NODE_MODULES=$dir/node_modules go test -race -count=1 -tags interop -run TestNodeRedlock -v ./redislock
