#!/usr/bin/env bash
# Makes .venv for this checkout, or finds it ready: scripts/env.sh [EXTRA...]
#
# A torch built for CUDA or ROCm that $PYTHON can import is used as it is; otherwise torch is
# installed as constraints.txt says. PYTHON=... chooses the interpreter, VENV=... the directory.
#
# Its exit statuses are 4 for a wrong setting and 3 for a failed installation; 1 would say that hardware is rejected.
set -euo pipefail
trap 'status=$?; case $status in 0 | 4) ;; *) [ "$status" -gt 128 ] || exit 3 ;; esac' EXIT
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
venv=${VENV:-.venv}
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

command -v "$python" >/dev/null || wrong "no '$python' here. Name a Python 3.10 or newer: make ... PYTHON=/path/to/python3"

# The interpreter itself, behind shims; and when .venv is active, the one that it was made with.
real=$("$python" - "$venv" 2>/dev/null <<'PY'
import os.path
import sys

if sys.version_info >= (3, 10):
    own = os.path.realpath(sys.prefix) == os.path.realpath(sys.argv[1])
    print(sys._base_executable if own else sys.executable)
PY
) || real=""
if [ -z "$real" ]; then
    newer=""
    for name in python3.14 python3.13 python3.12 python3.11 python3.10; do
        if "$name" -c '' 2>/dev/null; then newer=$name && break; fi
    done
    wrong "'$python' is $("$python" --version 2>&1 | head -n 1); Python 3.10 or newer is needed." \
        "Name one: make ... PYTHON=${newer:-/path/to/python3.12}"
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
if [ -n "$torch" ]; then fresh=yes; fi # --ignore-installed, below, is for an empty environment; it takes seconds

if [ "$fresh" = yes ]; then
    if [ -e "$venv" ] && [ ! -f "$stamp" ]; then
        wrong "'$venv' is there and was not made by this script. Move it away, or choose another: make ... VENV=DIR"
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null || failed "'$python' cannot make environments: venv or ensurepip is" \
        "missing. On Debian and Ubuntu: apt-get install $("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
fi

# From here to the last line the stamp says that this is unfinished, so that the next try starts anew.
if [ "$fresh" = yes ]; then rm -rf "$venv"; fi
{ mkdir -p "$venv" && echo unfinished >"$stamp"; } || wrong "'$venv' cannot be written to. Choose another: make ... VENV=DIR"

if [ -n "$torch" ] && ! error=$("$python" -c 'import torch' 2>&1); then
    say "'$python' has torch $torch in $home, but cannot import it: ${error##*$'\n'}"
    say "It is left aside. Once it is mended: make clean, and this again"
    torch=""
fi
if [ "$fresh" = no ]; then
    say "adding to $venv:$missing"
elif [ -n "$torch" ]; then
    say "making $venv, with the torch $torch of '$python'"
else
    say "making $venv, with torch as constraints.txt says (some minutes, the first time)"
    if [ -e /dev/kfd ]; then
        say "AMD accelerators are here, but '$python' has no torch for ROCm, and the one installed now will not" \
            "see them. If another interpreter has one: make ... PYTHON=/path/to/python3"
    fi
fi

# PIP_USER: some sites set it, and in an environment it fails. PIP_RETRIES: without a network, pip's
# own five take a minute.
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_USER=0 "PIP_RETRIES=${PIP_RETRIES:-2}"
log=$venv/pip.log
install() { "$venv/bin/python" -m pip install --quiet "$@" 2>&1 | tee "$log" >&2; }

if [ "$fresh" = yes ]; then
    "$python" -m venv ${torch:+--system-site-packages} "$venv" || failed "'$python' could not make an environment in '$venv'"
fi

wanted=${extras// /,} # each with a comma before it
if [ -n "$torch" ]; then
    # A vendor's image may pin every package that it has, an old pytest too. Nothing of it is replaced:
    # all that we need but torch is installed beside it, in the environment, with its commands.
    unset PIP_CONSTRAINT
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
if [ -n "$torch" ] && ! "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    # $python is itself of an environment, which --system-site-packages looks past.
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
