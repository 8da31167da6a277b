#!/bin/bash
# Ten rollouts of ten pods each, by three ways to the pods. Usage, as root, from the root of the checkout on a quiet machine:
#   lab/runs/2026-11-28-rollouts/run.sh [PROGRAM OF WEIR [TRIAL...]]
# Writes one CSV per trial and where it ran into the folder OUT, by default that of this script. PROGRAMS names a folder with built programs of lab/kubernetes.
set -eu
here=${OUT:-$(dirname "$(readlink -f "$0")")}
weir=$(readlink -f "${1:-target/release/weir}"); shift || true
programs=${PROGRAMS:-$(cargo run --quiet -p xtask -- kubernetes --build | tail -n 1)}
{ date -u +%F; uname -r; nproc; grep -m 1 'model name' /proc/cpuinfo; uptime; "$weir" --version; } > "$here/machine.txt"
# On two cores a collection of garbage in the API server takes the processors from what is measured: none before 2 GiB.
export GOGC=off GOMEMLIMIT=2GiB
wanted=" ${*:-plain pre-stop h2c} "
failed=0
trial() { # NAME OF THE CSV, OPTION...
    local csv=$1; shift
    case "$wanted" in *" $csv "*) ;; *) return 0 ;; esac
    local logs; logs=$(mktemp -d)
    echo "== $csv"
    "$programs/kubernetes" trial rollout --weir "$weir" --logs "$logs" --pods 10 --times 10 --rate 2000 "$@" > "$here/$csv.csv" || failed=1
    grep '^#' "$here/$csv.csv" || tail -n 3 "$here/$csv.csv"
    rm -r "$logs"
}
trial plain
trial pre-stop --pre-stop 1
trial h2c --protocol h2c
exit $failed
