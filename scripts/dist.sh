#!/usr/bin/env bash
# Builds the command for five platforms into the directory dist: an archive for each, a list of what
# is in it (SBOM, CycloneDX), and checksums. The version is that of the tag cmd/relock/v… that the
# commit has. The same commit and version of Go give the same bytes. RELOCK_NO_SBOM=1 leaves the lists out.
set -euo pipefail
cd "$(dirname "$0")/.."
go=${GO:-go}
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 freebsd/amd64}
gomod=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

root=$PWD dist=$PWD/dist
rm -rf "$dist"
mkdir "$dist"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ -z "${RELOCK_NO_SBOM-}" ]; then GOBIN="$tmp" "$go" install "$gomod"; fi
stamp=$(git log -1 --format=%ct)
for platform in $platforms; do
	os=${platform%/*} arch=${platform#*/}
	name=relock_${os}_$arch
	mkdir "$tmp/$name"
	(cd cmd/relock && CGO_ENABLED=0 GOOS=$os GOARCH=$arch "$go" build -trimpath -buildvcs=auto \
		-ldflags='-s -w' -o "$tmp/$name/relock" .)
	cp LICENSE cmd/relock/README.md "$tmp/$name"
	tar -C "$tmp" --sort=name --mtime="@$stamp" --owner=0 --group=0 --numeric-owner -c "$name" |
		gzip -n9 >"$dist/$name.tar.gz"
	if [ -z "${RELOCK_NO_SBOM-}" ]; then
		"$tmp/cyclonedx-gomod" bin -json -noserial -output "$dist/$name.cdx.json" "$tmp/$name/relock"
	fi
	echo "$name: $(du -h "$dist/$name.tar.gz" | cut -f1)"
done
cd "$dist"
sha256sum -- * >SHA256SUMS
cd "$root"
if [ "$(go env GOHOSTOS)/$(go env GOHOSTARCH)" = linux/amd64 ] && [ -d "$tmp/relock_linux_amd64" ]; then
	"$tmp/relock_linux_amd64/relock" --version
fi
