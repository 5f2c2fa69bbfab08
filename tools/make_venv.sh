#!/bin/sh
# Make a virtual environment in the folder named, unless one that works is there already.
set -eu
folder=$1
if [ -x "$folder/bin/python" ] && "$folder/bin/python" -c 'import pip' </dev/null >/dev/null 2>&1; then
    exit 0
fi
python=$(sh "$(dirname "$0")/pick_python.sh")
echo "Making $folder with $("$python" --version) ($python)."
"$python" -m venv --clear "$folder"
