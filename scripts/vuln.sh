#!/usr/bin/env bash
# Looks for known vulnerabilities that the code of each module reaches, with govulncheck. Where the
# data base of vulnerabilities cannot be reached it says so and succeeds; with RELOCK_REQUIRE_VULN=1
# it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
govulncheck=golang.org/x/vuln/cmd/govulncheck@v1.9.0

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
GOBIN="$tmp" "$go" install "$govulncheck" 2>"$tmp/log" || { cat "$tmp/log" >&2; exit 1; }
if ! "$tmp/govulncheck" -version | grep -q '^DB updated:'; then
	echo "vuln: LEFT OUT, since the data base of vulnerabilities cannot be reached" >&2
	[ -z "${RELOCK_REQUIRE_VULN-}" ] || exit 1
	exit 0
fi
found=()
while read -r dir; do
	echo "== $dir"
	(cd "$dir" && "$tmp/govulncheck" ./...) || found+=("$dir")
done < <(find . -name go.mod -not -path '*/.*/*' -printf '%h\n' | sort)
[ ${#found[@]} -eq 0 ] || { echo "vuln: see above: ${found[*]}" >&2; exit 1; }
