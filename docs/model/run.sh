#!/usr/bin/env bash
# Checks the models with spin: every state of some small worlds, and that spin finds each deliberate bug. It prints
# how many states each world has. "run.sh small" takes the small worlds only, in a minute.
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

# check explores all states of a model with some definitions, and sets errors, states and seconds.
check() {
	local model=$PWD/$1.pml start=$SECONDS
	shift
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

row() { printf '%-8s %-52s %10s states %4s s  %s\n' "$model" "$1" "${states:-?}" "$seconds" "$2"; }

# world takes whether it is small, the model and its definitions: there must be no error.
world() {
	local small=$1
	model=$2
	shift 2
	[ "$size" = all ] || [ "$small" = small ] || return 0
	check "$model" "$@"
	if [ "$errors" = 0 ]; then
		row "$*" ok
	else
		row "$*" "FAILED"
		grep -E 'pan:1' "$tmp/pan.out" || tail -3 "$tmp/pan.out"
		failed=1
	fi
}

# bug takes whether it is small, the model, what the assertion names that must fail, and the definitions.
bug() {
	local small=$1 names=$3
	model=$2
	shift 3
	[ "$size" = all ] || [ "$small" = small ] || return 0
	check "$model" "$@"
	if [ "${errors:-0}" != 0 ] && grep -E '^pan:1: assertion violated' "$tmp/pan.out" | grep -qF -- "$names"; then
		row "$*" found
	else
		row "$*" "NOT FOUND"
		grep -E 'pan:1' "$tmp/pan.out" || true
		failed=1
	fi
}

echo "A world has 2 calls or sessions unless it says more, each with 2 hold ids unless it says otherwise."
echo
echo "Worlds: no error in any state"
world small lock
world small lock -DLOSSES=1
world large lock -DFREEZES=1
world small lock -DFREEZES=2 -DIDS=1 -DLATE
world small lock -DCRASHES=1 -DIDS=1
world large lock -DBREAKS=1
world small lock -DCANCELS=1
world large lock -DCALLS=3 -DIDS=1 -DCRASHES=1
world small lock -DCALLS=3 -DIDS=1 -DFAIR -DFREEZES=1
world large lock -DFREEZES=1 -DLATE
world large lock -DFREEZES=1 -DCANCELS=1 -DLOSSES=1 -DIDS=1
world large lock -DFREEZES=1 -DLOSSES=1
world large lock -DLOSSES=2 -DCANCELS=1
world large lock -DBREAKS=1 -DLOSSES=1
world large lock -DCALLS=3 -DIDS=1 -DLOSSES=1
world large lock -DCALLS=3 -DIDS=1 -DFREEZES=1
world large lock -DCALLS=3 -DIDS=1 -DFREEZES=2
world large lock -DCALLS=3 -DIDS=1 -DFREEZES=1 -DCRASHES=1
world large lock -DCALLS=3 -DIDS=1 -DCANCELS=1
world large lock -DCALLS=3 -DIDS=2 -DFAIR -DFREEZES=1
world small keep
world large keep -DFREEZES=1
world large keep -DBREAKS=1 -DTRIES=1
world large keep -DSESSIONS=3 -DIDS=1 -DFREEZES=1
world large keep -DSESSIONS=3 -DIDS=1 -DCRASHES=1
world small phases
world large phases -DREADERS=1
world small phases -DFREEZES=1
world large phases -DREADERS=1 -DCRASHES=1
world large phases -DCANCELS=1
world large phases -DREADERS=1 -DFREEZES=1 -DLOSSES=1 -DCANCELS=1
world large phases -DFREEZES=1 -DLOSSES=1 -DCANCELS=1 -DCRASHES=1
world small redlock -DROUNDS=1 -DFREEZES=1
world large redlock
world large redlock -DDOWNS=1
world large redlock -DFREEZES=1
world large redlock -DCLIENTS=3 -DROUNDS=1 -DFREEZES=1

echo
echo "Deliberate bugs: spin finds each"
bug large lock until -DBUG_FROMREPLY -DFREEZES=1
bug small lock until -DBUG_FROMARRIVAL -DFREEZES=1
bug large lock until -DBUG_NOMARGIN -DFREEZES=1
bug large lock until -DBUG_RENEWEDLATE -DFREEZES=2 -DIDS=1 -DLATE
bug small lock 'taken[' -DBUG_TWICE
bug small lock best -DBUG_SAMETOKEN
bug large lock queued -DBUG_REQUEUE -DFREEZES=1
bug large lock queued -DBUG_RESEND -DLOSSES=1
bug large lock queued -DBUG_KEEPPLACE
bug small lock queued -DBUG_FORGET -DCANCELS=1
bug large lock queued -DBUG_DEFINITE -DCANCELS=1
bug large lock queued -DBUG_ANYHOLD -DLOSSES=1
bug small lock waited -DBUG_EACHPLACE -DCALLS=3 -DFAIR -DFREEZES=1
bug large keep stale -DBUG_NOREPEAT
bug small keep stale -DBUG_IGNORED
bug large keep stale -DBUG_HEADTELLS -DSESSIONS=3 -DIDS=1 -DCRASHES=1
bug large keep stale -DBUG_DEAFKEEPS -DBREAKS=1
bug large keep until -DBUG_NOCHECK -DFREEZES=1
bug large keep until -DBUG_FROMREPLY -DFREEZES=1
bug small phases 'met[' -DBUG_JOIN
bug large phases writers -DBUG_WRITERSFIRST -DREADERS=1
bug large phases until -DBUG_ANYREADER
bug large phases until -DBUG_UNCONFIRMED -DFREEZES=1
bug small redlock best -DBUG_NORAISE
bug large redlock best -DBUG_ONE
bug large redlock best -DBUG_LATE -DFREEZES=1
bug large redlock best -DWIPES=1 # no bug, but what is not promised

exit $failed
