#!/usr/bin/env bash
# Packs pytest-accel for a node without a network: one file with its wheel, the wheels that it needs
# (but for torch, which the node has) and an installer.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: scripts/bundle.sh [--python 3.12] [--platform PLATFORM] [--output FILE.tar.gz] [--session [--peers DIR]]

  --python    the node's Python, as major.minor (default: that of $PYTHON, or python3; with --session 3.12)
  --platform  x86_64, aarch64, or a tag of the newest glibc allowed, as manylinux_2_28_x86_64
              (default: this machine's architecture, and a glibc of 2.28 or newer)
  --output    default: dist/pytest-accel-VERSION-pyPYTHON-ARCHITECTURE.tar.gz
  --session   also pack run.sh and what it starts: a first session on a GPU (benchmarks/README.md)
  --peers     a folder with builds of the tools of others, for the session to compare with
TEXT
}
say() { printf 'bundle: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 1
}

python=${PYTHON:-python3}
target="" platform=$(uname -m) output="" session=no peers=""
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help) usage && exit 0 ;;
    --session) session=yes && shift && continue ;;
    --python | --platform | --output | --peers) [ $# -gt 1 ] || die "$1 needs a value" ;;
    *) usage >&2 && die "unknown option '$1'" ;;
    esac
    case $1 in
    --python) target=$2 ;;
    --platform) platform=$2 ;;
    --output) output=$(realpath -m -- "$2") ;;
    --peers) peers=$(realpath -e -- "$2") || die "--peers is '$2', which is not there" ;;
    esac
    shift 2
done
[ -z "$peers" ] || [ $session = yes ] || die "--peers is for --session"
cd "$(dirname "$0")/.."

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || die "'$python' is older than Python 3.10: PYTHON=/path/to/python3"
[ $session = no ] || : "${target:=3.12}"
: "${target:=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')}"
[[ $target =~ ^3\.[1-9][0-9]$ ]] || die "--python is '$target'; wanted: major.minor of Python 3.10 or newer, as 3.12"
case $platform in
manylinux2014_*) machine=${platform#manylinux2014_} glibc=17 ;;
manylinux_2_*) machine=${platform#manylinux_2_} && glibc=${machine%%_*} && machine=${machine#*_} ;;
arm64) machine=aarch64 glibc=28 ;;
*) machine=$platform glibc=28 ;;
esac
case $machine in
x86_64 | aarch64) ;;
*) die "--platform is '$platform'; wanted: x86_64, aarch64, or a manylinux tag that ends in one of them" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv" || die "'$python' cannot make environments. On Debian and Ubuntu: apt-get install python3-venv"
export "PIP_RETRIES=${PIP_RETRIES:-2}" # without a network, pip's own five take a minute
pip() {
    "$work/venv/bin/python" -m pip --disable-pip-version-check "$@" 2>&1 | tee "$work/pip.log" >&2 && return
    if grep -qiE 'connection|resolution|timed out|unreachable|SSLError|ProxyError' "$work/pip.log"; then
        say "pip could not reach a package index; this needs one"
        exit 69 # EX_UNAVAILABLE
    fi
    die "pip failed; its words are above"
}

say "building the wheel"
mkdir "$work/wheels"
pip wheel --quiet --no-deps --wheel-dir "$work/wheels" .
wheel=$(basename "$work"/wheels/pytest_accel-*.whl)
version=$(echo "$wheel" | cut -d- -f2)

# A tag names the oldest glibc that a wheel bears, so every older one is good as well.
platforms=(--platform "manylinux2014_$machine")
for ((minor = 5; minor <= glibc; minor++)); do platforms+=(--platform "manylinux_2_${minor}_$machine"); done

# pip takes the wheels of the node's Python, but reads the markers of their requirements with its own:
# what pytest needs on 3.10 alone would be missing. So: until nothing is missing, say what is.
say "fetching what it needs on Python $target, Linux $machine, glibc up to 2.$glibc"
echo pip >"$work/requirements.txt" # the installer's, for nodes where python3-venv is not installed
while
    pip download --quiet --dest "$work/wheels" --find-links "$work/wheels" --only-binary :all: \
        --python-version "$target" "${platforms[@]}" -r "$work/requirements.txt" "$work/wheels/$wheel"
    # It reads markers with packaging, which pytest needs, so that it is among the wheels.
    unmet=$(PYTHONPATH=$(echo "$work"/wheels/packaging-*.whl) "$python" scripts/unmet.py "$work/wheels" "$target" "$machine") || die "the wheels could not be examined"
    [ -n "$unmet" ]
do
    echo "$unmet" >>"$work/requirements.txt"
done

name=pytest-accel-$version-py$target-$machine
[ $session = no ] || name=pytest-accel-session-$version-py$target-$machine
root=$work/$name
mkdir "$root"
mv "$work/wheels" "$root/wheels"
cp scripts/install.sh LICENSE "$root"
next=install.sh
if [ $session = yes ]; then
    cp scripts/run.sh "$root"
    next="run.sh --minutes 7"
    mkdir "$root/benchmarks"
    cp benchmarks/{answers,bench,compare,cuda_stream,gpu_session,machine,peers,session,session_report,verify}.py benchmarks/stream.cu "$root/benchmarks"
    [ -z "$peers" ] || cp -RL -- "$peers" "$root/peers"
fi
printf 'version=%s\npython=%s\nmachine=%s\n' "$version" "$target" "$machine" >"$root/bundle.conf"
(cd "$root" && find . -type f | LC_ALL=C sort | xargs -d '\n' sha256sum >"$work/sums" && mv "$work/sums" SHA256SUMS)

: "${output:=$PWD/dist/$name.tar.gz}"
mkdir -p "$(dirname "$output")"
tar -C "$work" --owner=0 --group=0 --numeric-owner -czf "$output" "$name"
say "made $output ($(du -h "$output" | cut -f1))"
cat <<TEXT
Copy it to the node, and there:
  tar -xzf $(basename "$output")
  $name/$next
TEXT
