#!/usr/bin/env bash
# Our own tests: scripts/test.sh fast|faults|nightly|cuda [PYTEST OPTIONS]
#
#   fast     the quick tests
#   faults   one case of each kind of fault of a simulated node
#   nightly  all that are not quick, and then those of `cuda`
#   cuda     torch's CUDA build over a stand-in for the runtime, with each version of torch that CUDA_TORCH names
#
# Tests that measure this machine's own processors (marker `devices`) run one after the other in a call of their own,
# beside the one that runs all others in parallel; its output is shown when both have ended. Exit status: 5 if no call
# selected a test, otherwise that of the first failing call.
set -euo pipefail
typed="$0${*:+$(printf ' %q' "$@")}" # env.sh repeats it where a setting has to be changed
cd "$(dirname "$0")/.."

case ${1:-} in
fast) selection="not nightly and not cuda_build" ;;
faults) selection="fault_kind" ;;
nightly) selection="nightly and not cuda_build" ;;
cuda) ;;
*)
    echo "usage: scripts/test.sh fast|faults|nightly|cuda [PYTEST OPTIONS]" >&2
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

NOTHING_SELECTED=5
status=$NOTHING_SELECTED

# Keep the first failure; a call that selected no test decides only if all are such.
keep() {
    case $status in 0 | "$NOTHING_SELECTED") [ "$1" = "$NOTHING_SELECTED" ] || status=$1 ;; esac
}

# Run pytest with the settings of tests/pytest.ini.
call() {
    local ended=0
    "${VENV:-.venv-dev}/bin/pytest" "$@" || ended=$?
    keep "$ended"
}

if [ "$kind" != cuda ]; then
    serial=$(mktemp)
    "${VENV:-.venv-dev}/bin/pytest" -m "$selection and devices" "$@" >"$serial" 2>&1 &
    beside=$!
    trap 'kill "$beside" 2>/dev/null || true; rm -f "$serial"' EXIT
    call -n 3 --dist worksteal -m "$selection and not devices" "$@" # three for two cores: many tests wait for a process
    ended=0
    wait "$beside" || ended=$?
    keep "$ended"
    echo "the tests that measure the processors of this machine, one after the other:"
    cat "$serial"
fi
if [ "$kind" = cuda ] || [ "$kind" = nightly ]; then
    for torch in ${CUDA_TORCH:-2.13.0}; do
        export CUDA_TORCH="$torch"
        if ! scripts/cuda_build.sh "$torch" >&2; then keep 3 && continue; fi
        call -n 2 --dist worksteal -m "cuda_build and not devices" tests/cuda_build "$@"
        call -m "cuda_build and devices" tests/cuda_build "$@" # the node of eight has the machine to itself
    done
fi
exit "$status"
