#!/usr/bin/env bash
# Compares the API of each module that a release publishes with that of a base: the commit or tag
# in BASE, by default the newest tag, and before there is one the commit of 0.1.0. It prints what
# has changed. API_MODULES names some of them. With STRICT=1, as for a patch version, it fails if anything does not fit any more.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
apidiff=golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4

base=${BASE-}
[ -n "$base" ] || base=$(git describe --tags --match 'v[0-9]*' --abbrev=0 2>/dev/null) || base=90514c2
git rev-parse --quiet --verify "$base^{commit}" >/dev/null || {
	echo "api: this clone does not have $base: nothing to compare with" >&2
	exit 0
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/base"
git archive "$base" | tar -x -C "$tmp/base"
GOBIN="$tmp" "$go" install "$apidiff" 2>"$tmp/log" || { cat "$tmp/log" >&2; exit 1; }

library=github.com/relock-go/relock
broken=()
for dir in ${API_MODULES:-. goredis relockotel adapters/asynq adapters/certmagic adapters/gocron adapters/tusd}; do
	module=$library${dir#.}
	[ "$dir" = . ] || module=$library/$dir
	[ -f "$tmp/base/$dir/go.mod" ] || { echo "$module: new"; continue; }
	(cd "$tmp/base/$dir" && "$tmp/apidiff" -m -w "$tmp/old" "$module") >"$tmp/log" 2>&1 ||
		{ cat "$tmp/log" >&2; exit 1; }
	(cd "$dir" && "$tmp/apidiff" -m "$tmp/old" "$module") >"$tmp/diff" 2>"$tmp/log" ||
		{ cat "$tmp/log" >&2; exit 1; }
	grep -v '^Ignoring internal package' "$tmp/diff" >"$tmp/shown" || true
	if [ ! -s "$tmp/shown" ]; then
		echo "$module: as at $base"
		continue
	fi
	echo "$module: since $base"
	sed 's/^/	/' "$tmp/shown"
	if grep -q '^Incompatible' "$tmp/shown"; then broken+=("$module"); fi
done
if [ ${#broken[@]} -gt 0 ] && [ -n "${STRICT-}" ]; then
	echo "api: not compatible with $base: ${broken[*]}" >&2
	exit 1
fi
