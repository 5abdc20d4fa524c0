#!/usr/bin/env bash
# Our own tests: scripts/test.sh fast|faults|nightly|cuda|cuda-short [PYTEST OPTIONS]
#
# Tests that measure this machine's own processors (marker `devices`) run one after the other in a call of their own,
# beside the one that runs all others in parallel; its output is shown when both have ended. Exit status: 5 if neither
# call selected a test, otherwise that of the first failing call.
set -euo pipefail
typed="$0${*:+$(printf ' %q' "$@")}" # env.sh repeats it where a setting has to be changed
cd "$(dirname "$0")/.."

case ${1:-} in
fast) speed="not nightly and not cuda_build" ;;
faults) speed="fault_kind" ;;
nightly) speed="nightly and not cuda_build" ;;
cuda | cuda-short) ;; # all, or what a submission runs
*)
    echo "usage: scripts/test.sh fast|faults|nightly|cuda|cuda-short [PYTEST OPTIONS]" >&2
    exit 2
    ;;
esac
kind=$1
shift
TYPED="${TYPED:-$typed}" scripts/env.sh dev
unset TYPED

# worksteal: a process gets the tests of a file in a row, so that what they share is made once. Bytecode is kept even where
# the environment says not to: pytest takes ten seconds to compile our tests.
unset PYTHONDONTWRITEBYTECODE
call() { "${VENV:-.venv-dev}/bin/pytest" "$@"; } # with the settings of tests/pytest.ini

if [[ $kind = cuda* ]]; then # the builds of torch in CUDA_TORCH, by turns; the node of eight has the machine to itself
    for torch in ${CUDA_TORCH:-2.13.0}; do
        scripts/cuda_build.sh "$torch" >&2
        export CUDA_TORCH="$torch"
        if [ "$kind" = cuda-short ]; then
            call -n 2 --dist worksteal -m "cuda_build and not nightly" tests/cuda_build "$@"
        else
            call -n 2 --dist worksteal -m "cuda_build and not devices" tests/cuda_build "$@"
            call -m "cuda_build and devices" tests/cuda_build "$@"
        fi
    done
    exit
fi

serial=$(mktemp)
call -m "$speed and devices" "$@" >"$serial" 2>&1 &
beside=$!
trap 'kill "$beside" 2>/dev/null || true; rm -f "$serial"' EXIT

parallel_status=0 serial_status=0
call -n 2 --dist worksteal -m "$speed and not devices" "$@" || parallel_status=$?
wait "$beside" || serial_status=$?
echo "the tests that measure the processors of this machine, one after the other:"
cat "$serial"

NOTHING_SELECTED=5
for status in "$parallel_status" "$serial_status"; do
    if [ "$status" != 0 ] && [ "$status" != "$NOTHING_SELECTED" ]; then exit "$status"; fi
done
if [ "$parallel_status" = "$serial_status" ]; then exit "$parallel_status"; fi
