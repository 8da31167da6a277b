#!/bin/bash
# The trial of Ingresses in the Kubernetes of lab/kubernetes. Usage, as root, from the root of the checkout:
#   lab/runs/2026-11-28-ingress/run.sh [PROGRAM OF WEIR]
set -eu
here=$(dirname "$(readlink -f "$0")")
weir=$(readlink -f "${1:-target/debug/weir}")
programs=${PROGRAMS:-$(cargo run --quiet -p xtask -- kubernetes --build | tail -n 1)}
{ date -u +%F; uname -r; nproc; grep -m 1 'model name' /proc/cpuinfo; uptime; "$weir" --version; } > "$here/machine.txt"
logs=$(mktemp -d)
"$programs/kubernetes" trial ingress --weir "$weir" --manifests packaging/kubernetes --logs "$logs" > "$here/ingress.csv" || { echo "logs: $logs"; exit 1; }
rm -r "$logs"
