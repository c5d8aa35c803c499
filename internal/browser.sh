#!/usr/bin/env bash
# browser.sh [FOLDER] tests the page of pawl serve in chromium, and saves screenshots in
# FOLDER.
set -euo pipefail
pictures=${1:+$(realpath "$1")}
cd "$(dirname "$0")/.."
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
	{ echo "missing: apt-get install chromium fonts-dejavu-core" >&2; exit 1; }
PAWL_BROWSER=$browser PAWL_PICTURES=$pictures go test -count=1 -run TestPage -v ./cmd/pawl/internal/serve
