#!/usr/bin/env bash
# Makes an environment for this checkout, or finds it ready: scripts/env.sh [EXTRA...]
#
# It is .venv, and .venv-dev for the development tools (extra `dev`), so that no acceptance runs with their plugins.
# VENV=... chooses another directory, PYTHON=... the interpreter. A torch built for CUDA or ROCm that $PYTHON can import
# is used as it is; otherwise .venv gets the torch of constraints.txt, and .venv-dev uses that of .venv.
#
# Its exit statuses are 4 for a wrong setting and 3 for a failed installation; 1 would say that hardware is rejected.
set -euo pipefail
trap 'status=$?; case $status in 0 | 4) ;; *) [ "$status" -gt 128 ] || exit 3 ;; esac' EXIT
called="$0${*:+$(printf ' %q' "$@")}"
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=${VENV:-.venv}
lender="" # the environment whose torch this one uses
case "${VENV:-}: $* " in ":"*" dev "*) venv=.venv-dev lender=.venv ;; esac
typed=${TYPED:-$called}
stamp=$venv/pytest-accel.stamp # line 1: what the environment was made from; line 2: its extras
started=$SECONDS

say() { printf 'env: %s\n' "$*" >&2; }
wrong() {
    say "$@"
    exit 4
}
failed() {
    say "$@"
    exit 3
}

# Print the command as it was typed, with one setting changed: again VENV=DIR
again() {
    local name settings=$1
    for name in PYTHON VENV; do
        if [ "$name" != "${1%%=*}" ] && [ -n "${!name:-}" ]; then settings="$settings $name=$(printf %q "${!name}")"; fi
    done
    case $typed in "make "*) echo "$typed $settings" ;; *) echo "$settings $typed" ;; esac
}

command -v "$python" >/dev/null || wrong "no '$python' here. Name a Python 3.10 or newer: $(again PYTHON=/path/to/python3)"

# The interpreter itself, behind shims; and when an environment of ours is active, the one that it was made with.
real=$("$python" - "$venv" .venv .venv-dev 2>/dev/null <<'PY'
import os.path
import sys

if sys.version_info >= (3, 10):
    own = os.path.realpath(sys.prefix) in map(os.path.realpath, sys.argv[1:])
    print(sys._base_executable if own else sys.executable)
PY
) || real=""
if [ -z "$real" ]; then
    newer=""
    for name in python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$name" -c '' 2>/dev/null; then newer=$name && break; fi
    done
    wrong "'$python' is $("$python" --version 2>&1 | head -n 1); Python 3.10 or newer is needed." \
        "Name one: $(again "PYTHON=${newer:-/path/to/python3.12}")"
fi
python=$real

# One start of Python tells all that the environment depends on. torch/version.py is read, not
# imported with torch: that takes 20 ms, not seconds, which matters when everything is ready.
facts=$("$python" - "$venv" pyproject.toml constraints.txt <<'PY'
import hashlib
import importlib.util
import pathlib
import runpy
import sys

venv, *inputs = sys.argv[1:]
torch = home = ""
spec = importlib.util.find_spec("torch")
if spec and spec.origin:
    package = pathlib.Path(spec.origin).parent
    version = runpy.run_path(str(package / "version.py"))
    for name in ("cuda", "hip"):
        if version.get(name):
            torch, home = f"{version['__version__']} ({name} {version[name]})", str(package.parent)
key = hashlib.sha256()
for part in (sys.version, sys.prefix, str(pathlib.Path(venv).absolute()), torch, home):
    key.update(part.encode() + b"\0")
for name in inputs:
    key.update(pathlib.Path(name).read_bytes() + b"\0")
print(key.hexdigest(), torch, home, sep="\n")
PY
)
{ read -r key && read -r torch && read -r home; } <<<"$facts"

if [ -n "$lender" ]; then
    TYPED=$typed VENV="" PYTHON=$python scripts/env.sh
    for package in "$PWD/$lender"/lib/python*/site-packages/torch; do
        if [ -e "$package" ]; then home=${package%/torch} && torch="" key="$key $home"; else lender=""; fi
    done # without one of its own, it has that of $python, and so will this one
fi
beside=$torch$lender # not empty if torch is not installed into this environment

extras="" # what the environment has, or will have
if [ -f "$stamp" ] && [ -x "$venv/bin/python" ] && [ "$(sed -n 1p "$stamp")" = "$key" ]; then
    extras=$(sed -n 2p "$stamp")
    fresh=no
else
    fresh=yes
fi
missing=""
for extra in "$@"; do # each with a space before it, so that lists are joined by writing them in a row
    case " $extras " in *" $extra "*) ;; *) missing="$missing $extra" ;; esac
done
if [ "$fresh" = no ] && [ -z "$missing" ]; then exit 0; fi
extras=$extras$missing
if [ -n "$beside" ]; then fresh=yes; fi # --ignore-installed, below, is for an empty environment; it takes seconds

if [ "$fresh" = yes ]; then
    if [ -e "$venv" ] && [ ! -f "$stamp" ]; then
        wrong "'$venv' is there and was not made by this script. Move it away, or choose another:" \
            "$(again VENV=DIR)"
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null || failed "'$python' cannot make environments: venv or ensurepip is" \
        "missing. On Debian and Ubuntu: apt-get install $("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
fi

# From here to the last line the stamp says that this is unfinished, so that the next try starts anew.
if [ "$fresh" = yes ]; then rm -rf "$venv"; fi
{ mkdir -p "$venv" && echo unfinished >"$stamp"; } 2>/dev/null || wrong "'$venv' cannot be written to. Choose another: $(again VENV=DIR)"

if [ -n "$torch" ] && ! error=$("$python" -c 'import torch' 2>&1); then
    say "'$python' has torch $torch in $home, but cannot import it: ${error##*$'\n'}"
    say "It is left aside. Once it is mended: rm -r $venv, and this again"
    torch="" beside=""
fi

# PIP_USER: some sites set it, and in an environment it fails. PIP_RETRIES: without a network, pip's
# own five take a minute.
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_USER=0 "PIP_RETRIES=${PIP_RETRIES:-2}"
log=$venv/pip.log
quiet=--quiet
install() { "$venv/bin/python" -m pip install $quiet "$@" 2>&1 | tee "$log" >&2; }

# Print the version of torch that pip will take, with the suffix of its build: 2.13.0+cpu. Nothing if no index is reached.
build() {
    "$venv/bin/python" -m pip --timeout 10 --retries 0 index versions torch 2>/dev/null |
        sed -n 's/^Available versions: //p' | tr -d ' ' | tr ',' '\n' | grep -m 1 -xE "${1//./\\.}(\+.*)?" || true
}

free() { df -Pk "$1" 2>/dev/null | awk 'NR == 2 { print int($4 / 1000) }' || true; } # in MB
gb() { awk "BEGIN { printf \"%.1f GB\", $1 / 1000 }"; }

# Exit if there is clearly too little room for so many MB in the environment, and so many that pip unpacks them from.
need_room() {
    local installed=$1 download=$2 place=$PWD/$venv temporary=${TMPDIR:-/tmp} change="" here there
    if [ "${venv#/}" != "$venv" ]; then place=$venv; fi
    here=$(free "$place") there=$(free "$temporary")
    if [ -z "$here" ] || [ -z "$there" ]; then return; fi
    if [ "$(df -P "$place" | tail -n 1)" = "$(df -P "$temporary" | tail -n 1)" ]; then # one file system for both
        installed=$((installed + download)) download=0
    fi
    # pip keeps in its cache, too, what it downloads: not where that would be the last room.
    if [ "$here" -lt $((installed + $2)) ] || [ "$there" -lt $((download + $2)) ]; then export PIP_NO_CACHE_DIR=1; fi
    if [ $((here * 10)) -lt $((installed * 9)) ]; then
        change="$(gb "$installed") are needed on the disk of $place, $(gb "$here") are free: $(again VENV=DIR)"
    elif [ $((there * 10)) -lt $((download * 9)) ]; then
        change="$(gb "$download") are needed on the disk of $temporary, $(gb "$there") are free: TMPDIR=DIR $typed"
    fi
    if [ -n "$change" ]; then
        rm -rf "$venv"
        failed "no room for torch. $change. Or bring a torch of your own, see docs/running.md"
    fi
}

if [ "$fresh" = yes ]; then
    "$python" -m venv ${torch:+--system-site-packages} "$venv" || failed "'$python' could not make an environment in '$venv'"
fi
if [ "$fresh" = no ]; then
    say "adding to $venv:$missing"
elif [ -n "$torch" ]; then
    say "making $venv with the torch $torch of '$python'; downloading a few MB"
elif [ -n "$lender" ]; then
    say "making $venv with the torch of $lender; downloading about 100 MB of development tools, 0.4 GB on disk"
else
    version=$(sed -n 's/^torch==//p' constraints.txt)
    size=" (some minutes)"
    case $(build "$version") in
    "") ;;
    *+cpu) version=$version+cpu size=": about 0.2 GB, 1 GB on disk" && need_room 1000 200 ;;
    *) size=": about 2.7 GB, 4.7 GB on disk" && need_room 4700 2700 ;;
    esac
    say "making $venv; downloading torch $version and what it needs$size"
    if [ -t 2 ]; then export FORCE_COLOR=1 quiet=""; fi # or pip would move no progress bar through a pipe
    if [ -e /dev/kfd ]; then
        say "AMD accelerators are here, but '$python' has no torch for ROCm, and the one installed now will not" \
            "see them. If another interpreter has one: $(again PYTHON=/path/to/python3)"
    fi
fi

wanted=${extras// /,} # each with a comma before it
if [ -n "$beside" ]; then
    # A vendor's image may pin every package that it has, an old pytest too. Nothing of it is replaced:
    # all that we need but torch is installed beside it, in the environment, with its commands.
    if [ -n "$torch" ]; then unset PIP_CONSTRAINT; fi
    set -- --ignore-installed -e ".${wanted:+[${wanted#,}]}"
else
    set -- -c constraints.txt -e ".[torch$wanted]"
fi
if ! install "$@"; then
    if grep -qiE 'connection|resolution|timed out|unreachable|SSLError|ProxyError' "$log"; then
        say "pip could not reach a package index. For a node without a network: run scripts/bundle.sh where there" \
            "is one, copy the file that it makes to the node, unpack it there, and run its install.sh"
    fi
    failed "pip failed; its words are above"
fi
if [ -n "$beside" ] && ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    # It is that of $lender, or $python is itself of an environment, which --system-site-packages looks past.
    echo "$home" >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch-of-python.pth"
fi
case $torch in
*"(hip "*)
    if ! "$venv/bin/python" -c 'import amdsmi' 2>/dev/null && ! install -e ".[amd]"; then
        say "no amdsmi: AMD devices cannot be examined. ROCm brings it: pip install /opt/rocm/share/amd_smi"
    fi
    ;;
esac

printf '%s\n%s\n' "$key" "$extras" >"$stamp"
say "$venv is ready after $((SECONDS - started)) s"
