#!/bin/sh
# One nightly run of this node: pytest finds what the node is in /etc/accel/pytest.ini, and a rejected node is drained.
# How to rehearse it on any machine is in docs/running.md, "Nightly runs".
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

refuse() {
    echo "accel-nightly.sh: $1" >&2
    exit 3
}
command -v "$ACCEL_PYTEST" >/dev/null ||
    refuse "there is no $ACCEL_PYTEST: set ACCEL_PYTEST to the pytest of the environment that has pytest-accel"
cd "$ACCEL_RECORDS" || refuse "set ACCEL_RECORDS to a folder for the records"
[ -r "$ACCEL_INI" ] || refuse "there is no $ACCEL_INI: set ACCEL_INI to the path of the pytest.ini that names the SKU"
"$ACCEL_PYTEST" -c "$ACCEL_INI" --accel-output="$ACCEL_RECORDS/$(date -u +%Y%m%dT%H%M%SZ)" "$@"
status=$?
if [ "$status" = 1 ] && grep -q "$rejected" "$PYTEST_ACCEL_CLOSING_FILE"; then
    $ACCEL_DRAIN "$(head -n 1 "$PYTEST_ACCEL_CLOSING_FILE")"
fi
exit "$status"
