#!/bin/sh
# Create the virtual environment with the exact versions of constraints.txt.
set -eu
venv=$1
if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Routebook needs Python 3.11 or newer as '$PYTHON'; install it or run: make PYTHON=/path/to/python3.11 $*" >&2
    exit 2
fi
if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    . scripts/debian.sh
    from_debian python3-venv || {
        echo "Python has no venv module; install it, on Debian: apt-get install python3-venv" >&2
        exit 2
    }
fi
echo "creating $venv with the versions of constraints.txt"
"$PYTHON" -m venv "$venv"
sh scripts/assets.sh "$venv/bin/python"
"$venv/bin/pip" install -q --disable-pip-version-check -c constraints.txt -e '.[dev]' || {
    echo "pip could not install the dependencies; check that this machine reaches a Python package index, then run make install again" >&2
    exit 2
}
# Where Python is told not to write bytecode, every import would compile anew.
"$venv/bin/python" -m compileall -q src
