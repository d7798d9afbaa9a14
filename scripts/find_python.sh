#!/bin/sh
# Prints an interpreter that runs: `find_python.sh python3.13` (a name or a path), `find_python.sh
# lowest` and `find_python.sh newest` one of the lowest and the newest version that pyproject.toml
# names. A name that does not run, as that of a version which pyenv has not activated, is looked for
# among the versions of pyenv.
set -eu
cd "$(dirname "$0")/.."
wanted=$1
if [ "$wanted" = lowest ]; then
    wanted=python$(sed -n 's/^requires-python = ">=\([0-9.]*\)"/\1/p' pyproject.toml)
fi
if [ "$wanted" = newest ]; then
    wanted=python$(sed -n 's/.*Python :: \(3\.[0-9]*\)",$/\1/p' pyproject.toml | tail -n 1)
fi
version=${wanted#python}
for python in "$wanted" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/bin/python; do
    if "$python" -c 'import sys' >/dev/null 2>&1; then
        echo "$python"
        exit 0
    fi
done
echo "'$wanted' does not run: it is neither a path, nor on PATH, nor under pyenv." >&2
exit 1
