#!/bin/sh
# Print the newest Python, from 3.11 up, that starts and can make a virtual environment.
#
# Every folder of PATH is asked, and each candidate is run: a version manager leaves names behind
# that stand in PATH and do not start. PYTHON=/path/to/python names one instead.
set -u

starts() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11) or sys.version_info.releaselevel != "final")' \
        </dev/null >/dev/null 2>&1
}

has_venv() {
    "$1" -c 'import ensurepip, venv' </dev/null >/dev/null 2>&1
}

without_venv=""

offer() {
    [ -x "$1" ] || return 0
    starts "$1" || return 0
    if has_venv "$1"; then
        printf '%s\n' "$1"
        exit 0
    fi
    [ -n "$without_venv" ] || without_venv=$1
}

if [ -n "${PYTHON:-}" ]; then
    named=$(command -v "$PYTHON") || named=$PYTHON
    offer "$named"
    echo "PYTHON=$PYTHON is not a Python 3.11 or newer that starts and has venv." >&2
    exit 1
fi

minor=20
while [ "$minor" -ge 11 ]; do
    saved_ifs=$IFS
    IFS=:
    for folder in $PATH; do
        offer "$folder/python3.$minor"
    done
    IFS=$saved_ifs
    minor=$((minor - 1))
done
plain=$(command -v python3) && offer "$plain"

if [ -z "$without_venv" ]; then
    echo "No Python from 3.11 up starts here. Install one (with its venv module), or name it: make test PYTHON=/path/to/python" >&2
    exit 1
fi
version=$("$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if command -v apt-get >/dev/null 2>&1; then
    echo "Python $version has no venv module here. This line gets it: apt-get install python$version-venv" >&2
elif command -v brew >/dev/null 2>&1; then
    echo "Python $version has no venv module here. This line gets a Python that has it: brew install python@$version" >&2
else
    echo "Python $version has no venv module here. Install your system's package for it (python$version-venv)." >&2
fi
exit 1
