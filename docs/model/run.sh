#!/usr/bin/env bash
# Checks the model of a Redlock with spin: every state of some small worlds, and that spin finds each deliberate bug. It
# prints how many states each world has. "run.sh small" takes the small worlds only.
#
# Installs spin with apt-get where it is missing, as root or with "sudo -n". RELOCK_NO_INSTALL=1 prevents that.
set -euo pipefail
cd "$(dirname "$0")"
size=${1-all}

have() { command -v "$1" >/dev/null 2>&1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }
if ! have spin && [ -z "${RELOCK_NO_INSTALL-}" ] && have apt-get && as_root true 2>/dev/null; then
	echo "model: installing spin with apt-get (RELOCK_NO_INSTALL=1 prevents that)" >&2
	apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" </dev/null >/dev/null; }
	apt_get update || true # old lists may do
	apt_get install -y --no-install-recommends spin gcc libc6-dev || true
fi
for tool in spin gcc; do
	have "$tool" || { echo "model: $tool is missing (Debian's package $tool)" >&2; exit 1; }
done

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# check explores all states of a world with some definitions, and sets errors, states and seconds.
check() {
	local model=$PWD/redlock.pml start=$SECONDS
	(
		cd "$tmp"
		rm -f pan* ./*.trail
		spin "$@" -a "$model" >spin.out || { cat spin.out; exit 1; }
		gcc -O1 -w -DSAFETY -DNOFAIR -DMEMLIM=4000 -o pan pan.c
		nice -n 10 timeout 300 ./pan -m200000 -w23 >pan.out 2>&1 || true
		mv ./*.trail pan.trail 2>/dev/null || true
	)
	seconds=$((SECONDS - start))
	errors=$(sed -n 's/.*errors: \([0-9]*\)$/\1/p' "$tmp/pan.out")
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored$/\1/p' "$tmp/pan.out")
	if [ "${errors:-0}" = 0 ] && grep -qE 'not completed|max search depth|out of memory|memory limit' "$tmp/pan.out"; then
		errors=
	fi
}

row() { printf '%-44s %10s states %4s s  %s\n' "${1:-as it stands}" "${states:-?}" "$seconds" "$2"; }

# world takes whether it is small, and its definitions: there must be no error.
world() {
	local small=$1
	shift
	[ "$size" = all ] || [ "$small" = small ] || return 0
	check "$@"
	if [ "$errors" = 0 ]; then
		row "$*" ok
	else
		row "$*" "FAILED"
		grep -E 'pan:1' "$tmp/pan.out" || tail -3 "$tmp/pan.out"
		failed=1
	fi
}

# bug takes whether it is small, what the assertion names that must fail, and the definitions.
bug() {
	local small=$1 names=$2
	shift 2
	[ "$size" = all ] || [ "$small" = small ] || return 0
	check "$@"
	if [ "${errors:-0}" != 0 ] && grep -E '^pan:1: assertion violated' "$tmp/pan.out" | grep -qF -- "$names"; then
		row "$*" found
	else
		row "$*" "NOT FOUND"
		grep -E 'pan:1' "$tmp/pan.out" || true
		failed=1
	fi
}

echo "Worlds: no error in any state"
world small -DROUNDS=1 -DFREEZES=1
world large
world large -DDOWNS=1
world large -DFREEZES=1
world large -DCLIENTS=3 -DROUNDS=1 -DFREEZES=1

echo
echo "Deliberate bugs: spin finds each"
bug small best -DBUG_NORAISE
bug large best -DBUG_ONE
bug large best -DBUG_LATE -DFREEZES=1
bug large best -DWIPES=1 # no bug, but what is not promised

exit $failed
