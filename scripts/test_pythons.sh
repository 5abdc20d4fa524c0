#!/usr/bin/env bash
# The quick tests on the oldest and the newest supported Python of this machine: scripts/test_pythons.sh [PYTEST OPTIONS]
#
# Interpreters are looked for on PATH and in pyenv's folder; each gets an environment of its own, .venv-VERSION. The
# exit status is 1 if a test fails on one of them, and 4 if there is none.
set -euo pipefail
unset TYPED # hints repeat the call of scripts/test.sh, which has an interpreter and an environment of its own
cd "$(dirname "$0")/.."

say() { printf 'pythons: %s\n' "$*" >&2; }

# Print an interpreter of a version. pyenv has shims for versions on PATH that do not start.
interpreter() {
    local python
    for python in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python3; do
        if "$python" -c '' 2>/dev/null; then echo "$python" && return; fi
    done
    return 1
}

found=() missing=()
for version in $(sed -n 's/.*"Programming Language :: Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml); do
    if interpreter "$version" >/dev/null; then found+=("$version"); else missing+=("$version"); fi
done
if [ ${#found[@]} = 0 ]; then
    say "none is here of Python ${missing[*]}"
    exit 4
fi

ran=() failed=()
for version in $(printf '%s\n' "${found[0]}" "${found[-1]}" | uniq); do
    say "the quick tests on Python $version"
    ran+=("$version")
    VENV=.venv-$version PYTHON=$(interpreter "$version") scripts/test.sh fast "$@" || failed+=("$version")
done

say "ran on ${ran[*]}; failed on ${failed[*]:-none}; not found: ${missing[*]:-none}"
[ ${#failed[@]} = 0 ]
