#!/bin/sh
# Add Spark to the virtual environment: PySpark, Delta Lake and its jars, what the report draws with.
set -eu
venv=$1
extras=${2:-spark}
if ! java -version 2>&1 | grep -Eq 'version "(1[7-9]|2[0-9])'; then
    echo "Spark needs Java 17 or newer on the PATH; install a JDK (Debian: openjdk-17-jdk-headless) and try again" >&2
    exit 2
fi
echo "adding Spark to $venv with the versions of constraints.txt (some 500 MB the first time)"
"$venv/bin/pip" install -q --disable-pip-version-check -c constraints.txt -e ".[$extras]" || {
    echo "pip could not install Spark; check that this machine reaches a Python package index, then try again" >&2
    exit 2
}
if ! command -v mvn >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing Maven from Debian, to fetch the jars of Delta Lake"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends maven >/dev/null
fi
jars=$venv/share/routebook/jars
if command -v mvn >/dev/null; then
    echo "fetching the jars of Delta Lake"
    rm -rf "$jars"
    mvn -q -B -ntp -f scripts/spark/pom.xml dependency:copy-dependencies \
        -DincludeScope=runtime -DincludeGroupIds=io.delta -DoutputDirectory="$PWD/$jars" || {
        echo "Maven could not fetch the jars of Delta Lake; check that this machine reaches a Maven repository, then try again" >&2
        exit 2
    }
else
    echo "without Maven Spark fetches the jars of Delta Lake itself when it first starts"
fi
"$venv/bin/python" -m compileall -q src
