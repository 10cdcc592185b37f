#!/bin/sh
# Add Spark to the virtual environment: PySpark, Delta Lake and its jars, what the report draws with.
set -eu
venv=$1
extras=${2:-spark}
. scripts/debian.sh
# A whole JDK, and not only what runs: `make test` compiles with it.
if ! newer_than_16 java && ! from_debian openjdk-17-jdk-headless; then
    echo "Spark needs Java 17 or newer on the PATH; install a JDK (Debian: openjdk-17-jdk-headless) and try again" >&2
    exit 2
fi
echo "adding Spark to $venv with the versions of constraints.txt (some 500 MB the first time)"
"$venv/bin/pip" install -q --disable-pip-version-check -c constraints.txt -e ".[$extras]" || {
    echo "pip could not install Spark; check that this machine reaches a Python package index, then try again" >&2
    exit 2
}
command -v mvn >/dev/null || from_debian maven || true
jars=$venv/share/routebook/jars
if command -v mvn >/dev/null; then
    echo "fetching the jars of Delta Lake"
    rm -rf "$jars"
    mvn -q -B -ntp -Dstyle.color=never -f scripts/spark/pom.xml dependency:copy-dependencies \
        -DincludeScope=runtime -DincludeGroupIds=io.delta -DoutputDirectory="$PWD/$jars" || {
        echo "Maven could not fetch the jars of Delta Lake; check that this machine reaches a Maven repository, then try again" >&2
        exit 2
    }
else
    echo "without Maven Spark fetches the jars of Delta Lake itself when it first starts"
fi
"$venv/bin/python" -m compileall -q src
