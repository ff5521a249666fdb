#!/usr/bin/env bash
# Runs "go mod tidy" in every module, with the arguments that it is given, such as -diff.
#
# cmd/relock replaces the library in go.work, which "go mod tidy" does not read. So there a copy of go.mod with that
# replacement is made tidy, and copied back without it.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
go=${GO:-go}
library=github.com/relock-go/relock
failed=()
while read -r dir; do
	pushd "$dir" >/dev/null
	if [ ! -e go.work ]; then
		"$go" mod tidy "$@" || failed+=("$dir")
	else
		cp go.mod go.sum "$tmp"
		"$go" mod edit -replace="$library=$root" "$tmp/go.mod"
		GOWORK=off "$go" mod tidy -modfile="$tmp/go.mod" "$@" || failed+=("$dir")
		"$go" mod edit -dropreplace="$library" "$tmp/go.mod"
		cp "$tmp/go.mod" "$tmp/go.sum" .
	fi
	popd >/dev/null
done < <(find . -name go.mod -not -path '*/.*/*' -exec dirname {} \; | sort)
[ ${#failed[@]} -eq 0 ] || { echo "go.mod or go.sum is not tidy, see above: ${failed[*]}. Run make tidy" >&2; exit 1; }
