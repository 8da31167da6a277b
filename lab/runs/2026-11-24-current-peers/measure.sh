#!/bin/sh
# The rows of README's table against current releases, one run each, on this machine: some three hours. The host's name goes into
# the folder, since rows of two hosts are kept apart.
#   lab/runs/2026-11-24-current-peers/measure.sh epyc
set -eu
host=${1:?a short name for this host, such as epyc}
cd "$(git rev-parse --show-toplevel)"
cargo xtask peers
cargo build --profile dist --package weir --package weir-lab
target/dist/weir-lab targets
target/dist/weir-lab suite all --out "target/current-peers-$host" --only l7-keepalive,l7-post-1k,l7-short,l7-latency-half,idle-memory,\
tls-keepalive-tls13,tls-handshake-ecdsa,tls-handshake-rsa,tls-resume,bulk,bulk-tls,websocket-echo,websocket-idle,tls-unfinished,l4-keepalive,l4-short
