#!/bin/sh
# Makes .venv from the hash-pinned lock. Does nothing when lock and project file are the ones it was made from.
set -eu
cd "$(dirname "$0")/.."
stamp=.venv/.memtrial-lock
wanted=$(cat requirements/dev.lock requirements/embedding.lock pyproject.toml | sha256sum | cut -c1-64)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ] && .venv/bin/memtrial --version >/dev/null 2>&1; then
    exit 0
fi
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "setup: expected Python 3.11 or later as '$python', found $("$python" --version 2>&1 || true)" >&2
    echo "  next: install it, or run PYTHON=/path/to/python3.11 make setup" >&2
    exit 4
}
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && [ "${MEMTRIAL_ENGINE:-}" != keep ]; then
        echo "setup: installing Debian's python3-venv, which this Python lacks" >&2
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3-venv; } >/dev/null
    else
        echo "setup: expected a Python with ensurepip, found none; next: apt-get install -y python3-venv" >&2
        exit 4
    fi
fi
echo "setup: making .venv from requirements/dev.lock and embedding.lock (hash-checked)" >&2
rm -rf .venv
"$python" -m venv .venv
# What pip says (on a machine with several indexes, much) is shown only when it fails.
said=.venv/setup.log
pip() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "$@" >>"$said" 2>&1 || {
        cat "$said" >&2
        echo "setup: expected pip to install what the lock names, found the lines above" >&2
        echo "  next: mend what they say (network, index, disk), then run make setup" >&2
        exit 4
    }
}
pip --only-binary :all: --require-hashes -r requirements/dev.lock
pip --only-binary :all: --require-hashes -r requirements/embedding.lock
pip --no-build-isolation --no-index --editable .
echo "$wanted" > "$stamp"
