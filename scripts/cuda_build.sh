#!/usr/bin/env bash
# Makes what `make test-cuda` needs, or finds it ready, and prints its folder: scripts/cuda_build.sh [TORCH]
#
# An environment with torch's CUDA build, unchanged, and a stand-in for CUDA's runtime, cuBLAS and NCCL, compiled from
# tests/cuda_build/standin against the headers of its wheels. It takes 5 GB, a minute or two, and no GPU; it is kept in
# $PYTEST_ACCEL_CUDA_BUILD (default: ~/.cache/pytest-accel/cuda-build). PYTHON=... chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."

torch=${1:-2.13.0}
root=${PYTEST_ACCEL_CUDA_BUILD:-${XDG_CACHE_HOME:-$HOME/.cache}/pytest-accel/cuda-build}
place=$root/torch-$torch
python=$place/venv/bin/python

say() { printf 'cuda build: %s\n' "$*" >&2; }
die() {
    say "$@"
    exit 3
}

command -v g++ >/dev/null || die "no g++, which compiles the stand-in. On Debian and Ubuntu: apt-get install g++"

# No constraint applies here.
install() { PIP_CONSTRAINT=/dev/null PIP_DISABLE_PIP_VERSION_CHECK=1 "$python" -m pip install --quiet "$@" >&2; }

if [ ! -f "$place/complete" ]; then
    say "making $place with torch $torch (a download of 3 GB, once)"
    rm -rf "$place" && mkdir -p "$place"
    "${PYTHON:-python3}" -m venv "$place/venv"
    # Three equal signs: this very build, not one for CPUs with a suffix that lies nearer.
    install "torch===$torch" numpy || die "torch $torch could not be installed; pip's words are above"
    cuda=$("$python" -c 'import torch; print(torch.version.cuda or "")')
    case $cuda in
    "") die "torch $torch from this index is not a build for CUDA" ;;
    12.*) compiler="nvidia-cuda-nvcc-cu12==$cuda.*" ;; # its headers; the runtime's wheel leaves some out
    *) compiler="nvidia-cuda-crt==$cuda.*" ;;
    esac
    install "$compiler" || die "$compiler could not be installed; pip's words are above"
    touch "$place/complete"
fi
if ! cmp -s pyproject.toml "$place/pyproject.toml"; then # for our dependencies: the tests bring a wheel
    install . || die "the dependencies of pytest-accel could not be installed; pip's words are above"
    "$python" -m pip uninstall --quiet --yes pytest-accel >&2
    cp pyproject.toml "$place"
fi

sources=tests/cuda_build/standin
key=$(cat "$sources"/*.cpp "$sources"/*.h "$sources"/headers/*.h | sha256sum | cut -c1-16)
if [ ! -f "$place/lib/$key" ]; then
    rm -rf "$place/lib" && mkdir -p "$place/lib"
    headers=(-I"$sources/headers" -include "$sources/headers/types.h")
    for folder in "$place"/venv/lib/python*/site-packages/nvidia/*/include; do headers+=(-isystem "$folder"); done
    g++ -std=c++17 -O1 -Wall -shared -fPIC "${headers[@]}" "$sources"/{runtime,kernels,blas,nccl}.cpp \
        -o "$place/lib/libstandin.so" -lpthread -lrt || die "the stand-in does not compile against torch $torch"
    g++ -shared -fPIC "$sources/driver.cpp" -o "$place/lib/libcuda.so.1"
    touch "$place/lib/$key"
fi
echo "$place"
