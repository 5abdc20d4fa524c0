#!/usr/bin/env bash
# Our own tests: scripts/test.sh fast|slow [PYTEST OPTIONS]
#
# Tests that measure this machine's own processors (marker `devices`) run one after the other, after all
# others have run in parallel. Exit status: 5 if neither call selected a test, otherwise that of the first failing call.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-} in
fast) speed="not slow" ;;
slow) speed="slow" ;;
*)
    echo "usage: scripts/test.sh fast|slow [PYTEST OPTIONS]" >&2
    exit 2
    ;;
esac
shift
scripts/env.sh dev

NOTHING_SELECTED=5
status=$NOTHING_SELECTED

run() {
    local came=0
    # strict: an unknown marker or option is an error. no:randomly: a failure can be repeated.
    # benchmark-disable: pytest-benchmark warns under xdist, and a warning is an error.
    "${VENV:-.venv}/bin/pytest" -o strict=true -p no:randomly --benchmark-disable "$@" || came=$?
    case $came in
    2) exit 2 ;; # interrupted, or a file that cannot be collected
    "$NOTHING_SELECTED") ;;
    *) if [ "$status" = 0 ] || [ "$status" = "$NOTHING_SELECTED" ]; then status=$came; fi ;;
    esac
}

run -n 2 -m "$speed and not devices" "$@"
run -m "$speed and devices" "$@"
exit "$status"
