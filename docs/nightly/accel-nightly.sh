#!/bin/sh
# One nightly run of this node: pytest finds what the node is in /etc/accel/pytest.ini, and a rejected node is drained.
# Rehearse it on any machine: ACCEL_REHEARSE=node.yaml ./accel-nightly.sh
: "${ACCEL_PYTEST:=/opt/accel/bin/pytest}" "${ACCEL_INI:=/etc/accel/pytest.ini}" "${ACCEL_RECORDS:=/var/lib/accel}"
: "${ACCEL_DRAIN:=/usr/local/sbin/drain-this-node}"

rejected='^REJECTED '
if [ -n "$ACCEL_REHEARSE" ]; then
    rejected='^SIMULATED REJECTED '
    set -- "--accel-simulate=$ACCEL_REHEARSE" "$@"
fi
PYTEST_ACCEL_CLOSING_FILE=$(mktemp) || exit 3
export PYTEST_ACCEL_CLOSING_FILE
trap 'rm -f "$PYTEST_ACCEL_CLOSING_FILE"' EXIT

cd "$ACCEL_RECORDS" || exit 3
"$ACCEL_PYTEST" -c "$ACCEL_INI" --accel-output="$ACCEL_RECORDS/$(date -u +%Y%m%dT%H%M%SZ)" "$@"
status=$?
if [ "$status" = 1 ] && grep -q "$rejected" "$PYTEST_ACCEL_CLOSING_FILE"; then
    $ACCEL_DRAIN "$(head -n 1 "$PYTEST_ACCEL_CLOSING_FILE")"
fi
exit "$status"
