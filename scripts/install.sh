#!/usr/bin/env bash
# Installs pytest-accel on this node from the files beside this one. Nothing is fetched.
#
# Its exit statuses are 4 for a wrong option and 3 for a failed installation; 1 would say that hardware is rejected.
set -euo pipefail
trap 'status=$?; case $status in 0 | 4) ;; *) [ "$status" -gt 128 ] || exit 3 ;; esac' EXIT

usage() {
    cat <<'TEXT'
usage: install.sh [--venv DIR | --current] [--python PYTHON] [--without-torch]

  --venv DIR       make an environment there that also sees the packages of PYTHON, its torch among
                   them, and leaves them as they are (default: ./pytest-accel-venv)
  --current        install into PYTHON's own environment instead
  --python PYTHON  the node's interpreter that has torch (default: python3)
  --without-torch  go on where PYTHON has no torch: what needs it stays unmeasured
TEXT
}
say() { printf 'install: %s\n' "$*" >&2; }
wrong() {
    say "$@"
    exit 4
}
failed() {
    say "$@"
    exit 3
}

venv=$PWD/pytest-accel-venv current=no python=python3 need_torch=yes
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --current) current=yes && shift ;;
    --without-torch) need_torch=no && shift ;;
    --venv | --python)
        [ $# -gt 1 ] || wrong "$1 needs a value"
        if [ "$1" = --venv ]; then venv=$(realpath -m -- "$2"); else python=$2; fi
        shift 2
        ;;
    *) usage >&2 && wrong "unknown option '$1'" ;;
    esac
done

command -v "$python" >/dev/null || wrong "no '$python' here; name an interpreter with --python"
here=$(cd "$(dirname "$0")" && pwd)
(cd "$here" && sha256sum --quiet --check SHA256SUMS >&2) || failed "these files are not as they were packed; copy the bundle anew"
wanted() { sed -n "s/^$1=//p" "$here/bundle.conf"; }

found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [ "$found" != "$(wanted python)" ]; then
    wrong "'$python' is Python $found, and this bundle is for Python $(wanted python), since some of its wheels are" \
        "compiled. Name an interpreter of that version with --python, or make a bundle for this one:" \
        "scripts/bundle.sh --python $found"
fi
if [ "$(uname -m)" != "$(wanted machine)" ]; then
    wrong "this machine is $(uname -m), and this bundle is for $(wanted machine). Make one for it: scripts/bundle.sh --platform $(uname -m)"
fi

# What torch says of itself and where it is; the directory is needed where PYTHON is itself of a venv.
describe='
import pathlib, torch
built = "CUDA " + torch.version.cuda if torch.version.cuda else "ROCm " + torch.version.hip if torch.version.hip else ""
print(torch.__version__ + (" for " + built if built else " without CUDA or ROCm"))
print(pathlib.Path(torch.__file__).parent.parent)
'
home=""
if torch=$("$python" -W ignore -c "$describe" 2>&1); then
    home=$(tail -n 1 <<<"$torch")
    torch=$(tail -n 2 <<<"$torch" | head -n 1)
    say "torch $torch, of '$python'"
    case $torch in *without*) say "this torch sees no accelerator: only a CPU can be examined with it" ;; esac
elif [ "$need_torch" = yes ]; then
    wrong "'$python' cannot import torch: ${torch##*$'\n'}." \
        "Name the interpreter that has the node's torch with --python, or go on without it: --without-torch"
fi

# pip comes with the bundle: a node may have no ensurepip (Debian keeps it in python3-venv).
pip() { PYTHONPATH=$(echo "$here"/wheels/pip-*.whl) "$@"; }
install=(-m pip --isolated --disable-pip-version-check install --quiet --no-index --find-links "$here/wheels" "pytest-accel==$(wanted version)")
if [ "$current" = yes ]; then
    pip "$python" "${install[@]}" || failed "pip failed; its words are above"
    bin=$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))')
else
    if [ -e "$venv" ] && [ ! -f "$venv/pyvenv.cfg" ]; then wrong "'$venv' is there, and is no environment; choose another with --venv"; fi
    "$python" -m venv --clear --without-pip --system-site-packages "$venv" ||
        wrong "'$python' cannot make environments. Install into its own instead: --current"
    # --ignore-installed: what PYTHON has of the same need not be new enough, and has no command in here.
    pip "$venv/bin/python" "${install[@]}" --ignore-installed || failed "pip failed; its words are above"
    if [ -n "$home" ] && ! "$venv/bin/python" -W ignore -c 'import torch' 2>/dev/null; then
        # PYTHON is itself of an environment, which --system-site-packages looks past.
        echo "$home" >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch-of-python.pth"
    fi
    bin=$venv/bin
fi
"$bin/pytest" --help | grep -e --accel-sku >/dev/null || failed "installed, but '$bin/pytest --help' does not know --accel-sku"

cat <<TEXT
Installed pytest-accel $(wanted version). Now, for this node's accelerators as they are recognised:
  $bin/pytest --accel-sku=auto --accel-level=quick
and for its acceptance, with the name that 'pytest-accel sku list' shows for what was ordered:
  $bin/pytest --accel-sku=NAME --accel-level=standard
TEXT
