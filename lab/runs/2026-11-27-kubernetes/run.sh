#!/bin/bash
# Trials in the Kubernetes of lab/kubernetes. Usage, as root, from the root of the checkout on a quiet machine:
#   lab/runs/2026-11-27-kubernetes/run.sh [PROGRAM OF WEIR [TRIAL...]]
# Writes one CSV per trial and where it ran into the folder OUT, by default that of this script. PROGRAMS names a folder with built programs of lab/kubernetes.
set -eu
here=${OUT:-$(dirname "$(readlink -f "$0")")}
weir=$(readlink -f "${1:-target/release/weir}"); shift || true
programs=${PROGRAMS:-$(cargo run --quiet -p xtask -- kubernetes --build | tail -n 1)}
{ date -u +%F; uname -r; nproc; grep -m 1 'model name' /proc/cpuinfo; uptime; "$weir" --version; } > "$here/machine.txt"
# On two cores a collection of garbage in the API server takes the processors from what is measured: none before 2 GiB.
export GOGC=off GOMEMLIMIT=2GiB
wanted=" ${*:-rollout scale route route-loaded endpoint endpoint-10000 attach memory outage outage-10min} "
failed=0
trial() { # NAME OF THE CSV, TRIAL, OPTION...
    local csv=$1 name=$2; shift 2
    case "$wanted" in *" $csv "*) ;; *) return 0 ;; esac
    local logs; logs=$(mktemp -d)
    echo "== $csv"
    "$programs/kubernetes" trial "$name" --weir "$weir" --logs "$logs" "$@" > "$here/$csv.csv" || failed=1
    grep '^#' "$here/$csv.csv" || tail -n 3 "$here/$csv.csv"
    [ $failed = 0 ] && rm -r "$logs" || echo "logs: $logs"
}
trial rollout rollout --pods 10 --times 10 --rate 2000
trial scale scale --pods 100 --rate 2000
trial route route --changes 600
trial route-loaded route --changes 600 --rate 1000
trial endpoint endpoint --changes 400
trial endpoint-10000 endpoint --changes 400 --routes 10000
trial attach attach --routes 1000 --times 3
trial memory memory --routes 10000
trial outage outage --times 5 --outage 30s --rate 500
trial outage-10min outage --times 1 --outage 10m --rate 500
exit $failed
