#!/usr/bin/env bash
# Installs redis-server for the tests, where that can be done without a question: with
# apt-get as root or with "sudo -n", or with Homebrew. Where it cannot, it says what the
# tests leave out, and succeeds; if RELOCK_REQUIRE_REDIS is set, it fails.
#
# RELOCK_NO_INSTALL=1 keeps it from installing anything.
set -euo pipefail

oldest=7 # what docs/operating.md says is of 7.0; for 6.2 see test-servers.sh

have() { command -v "$1" >/dev/null 2>&1; }

give_up() {
	if [ -n "${RELOCK_REQUIRE_REDIS-}" ]; then
		echo "install-redis: $1, and RELOCK_REQUIRE_REDIS is set" >&2
		exit 1
	fi
	echo "install-redis: $1. Left out: every test against a real Redis" \
		"(failover, lost connections, killed processes). The others run on an in-memory one." >&2
	exit 0
}

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

if [ -n "${RELOCK_REDIS_SERVER-}" ]; then
	exit 0 # whoever names a server is taken at their word
fi
if have redis-server; then
	version=$(redis-server --version | sed -n 's/.* v=\([0-9.]*\).*/\1/p')
	if [ "${version%%.*}" -lt "$oldest" ] 2>/dev/null; then
		echo "install-redis: redis-server $version is too old for the tests, which need $oldest.0:" \
			"set RELOCK_REDIS_SERVER to the path of a newer one" >&2
		exit 1
	fi
	exit 0
fi
if [ -n "${RELOCK_NO_INSTALL-}" ]; then
	give_up "redis-server is not installed, and RELOCK_NO_INSTALL is set"
fi

if have apt-get && as_root true 2>/dev/null; then
	apt_get() {
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" </dev/null >/dev/null
	}
	echo "install-redis: installing redis-server with apt-get (RELOCK_NO_INSTALL=1 prevents that)" >&2
	apt_get update || true # old lists may do
	candidate=$(apt-cache policy redis-server | sed -n 's/^ *Candidate: \([0-9]*:\)\?\([0-9]*\).*/\2/p')
	if [ "${candidate:-0}" -lt "$oldest" ]; then
		give_up "apt-get has no redis-server $oldest.0 or newer"
	fi
	apt_get install -y --no-install-recommends redis-server || give_up "apt-get could not install redis-server"
elif have brew; then
	echo "install-redis: installing redis with brew (RELOCK_NO_INSTALL=1 prevents that)" >&2
	brew install --quiet redis </dev/null >&2 || give_up "brew could not install redis"
else
	give_up "redis-server is not installed, and neither apt-get (as root, or with sudo -n) nor brew can be used"
fi
have redis-server || give_up "redis-server was installed, but is not in PATH"
redis-server --version >&2
