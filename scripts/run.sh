#!/bin/sh
# Runs all that is open on this machine's GPU from the files beside this one, within a number of minutes, and leaves
# session.tar.gz in the current folder. Nothing is fetched, compiled, or changed outside of these two folders.
#   run.sh [FOLDER FOR THE RESULTS] [--minutes 7] [--sku NAME]     --help lists the rest
#   PYTHON=...  the interpreter that has torch, if it is none of python3, python, pythonX.Y, /opt/conda/bin/python
# Before the session begins its exit statuses are 4 for a wrong setting and 3 for a failed installation.
set -eu
trap 'status=$?; [ "$status" != 1 ] || exit 3' EXIT

began=$(date +%s)
here=$(cd "$(dirname "$0")" && pwd)
wanted=$(sed -n 's/^python=//p' "$here/bundle.conf")

found=""
tried=""
for each in ${PYTHON:-python3 python "python$wanted" /opt/conda/bin/python /opt/venv/bin/python /usr/bin/python3}; do
    command -v "$each" >/dev/null || continue
    version=$("$each" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || version="no Python"
    why="this archive is for $wanted"
    if [ "$version" = "$wanted" ] && why=$("$each" -W ignore -c 'import torch' 2>&1); then
        found=$each
        break
    fi
    tried="$tried
  $(command -v "$each") ($version): $(echo "$why" | tail -n 1)"
done
if [ -z "$found" ]; then
    echo "run: no interpreter here is Python $wanted and has torch; name one with PYTHON=..., or make a bundle for" \
        "another: scripts/bundle.sh --session --python X.Y. Tried:$tried" >&2
    exit 4
fi

place=$here
[ -w "$place" ] || place=$(mktemp -d)
# The machine's own plugins of pytest stay out: one that is too old for this pytest would end every run of it.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 PYTEST_ADDOPTS="-p pytest_accel.plugin"
bash "$here/install.sh" --python "$found" --venv "$place/venv" >"$place/install.log" || exit
unset PYTEST_ADDOPTS

[ ! -d "$here/peers" ] || set -- --peers "$here/peers" "$@"
exec "$place/venv/bin/python" "$here/benchmarks/gpu_session.py" --since "$began" "$@"
