#!/usr/bin/env bash
# Installs the programs of Debian that some slow tests need, where this user may install: scripts/test_tools.sh
#
# Without them these tests are skipped, each with the reason.
set -uo pipefail
PATH=$PATH:/usr/sbin:/sbin # where Slurm has its daemons

say() { printf 'test tools: %s\n' "$*" >&2; }

missing=""
while read -r program package; do
    command -v "$program" >/dev/null || missing="$missing $package"
done <<'EOT'
chromium chromium
prometheus prometheus
slurmctld slurm-wlm
munged munge
EOT
if [ -z "$missing" ]; then exit 0; fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "not installed, and their tests are skipped:$missing"
    exit 0
fi
say "installing$missing"
export DEBIAN_FRONTEND=noninteractive
{ apt-get -q update && apt-get -q install -y --no-install-recommends $missing; } >/dev/null 2>&1 ||
    say "apt-get failed; the tests that need$missing are skipped"
