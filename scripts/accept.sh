#!/usr/bin/env bash
# The acceptance run of this node, from the checkout: scripts/accept.sh [PYTEST OPTIONS]
#
# Its exit status is pytest's, which tells REJECTED (1) from NOT JUDGED (6); that of make is 2 for both. Before pytest
# is started it is 4 for a wrong setting and 3 for a failed installation.
set -euo pipefail
trap 'status=$?; [ "$status" != 1 ] || exit 3' EXIT
typed="$0${*:+$(printf ' %q' "$@")}" # env.sh repeats it where a setting has to be changed
cd "$(dirname "$0")/.."

TYPED="${TYPED:-$typed}" scripts/env.sh
set -- --accel-sku=auto --accel-level=quick "$@"
echo "+ pytest $*" >&2
exec "${VENV:-.venv}/bin/pytest" "$@"
