#!/bin/bash
# Rollouts and scaling in the Kubernetes of lab/kubernetes. Usage, as root, from the root of the checkout on a quiet machine:
#   lab/runs/2026-11-27-kubernetes/run.sh [PROGRAM OF WEIR]
# Writes one CSV per trial beside this script, and where it ran into machine.txt.
set -eu
here=$(dirname "$(readlink -f "$0")")
weir=$(readlink -f "${1:-target/release/weir}")
programs=$(cargo run --quiet -p xtask -- kubernetes --build | tail -n 1)
{ date -u +%F; uname -r; nproc; grep -m 1 'model name' /proc/cpuinfo; uptime; "$weir" --version; } > "$here/machine.txt"
failed=0
trial() { # NAME OPTION...
    local name=$1; shift
    "$programs/kubernetes" trial --weir "$weir" --logs "$(mktemp -d)" --name "$name" "$@" | tee "$here/$name.csv" || failed=1
}
set -o pipefail
trial rollout --pods 10 --times 10 --rate 2000
trial scale --pods 100 --rate 2000
exit $failed
