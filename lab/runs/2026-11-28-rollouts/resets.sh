#!/bin/bash
# The trial `plain` with the resets that the kernel sends, and why. Usage, as root, from the root of the checkout, with `perf`:
#   PROGRAMS=FOLDER lab/runs/2026-11-28-rollouts/resets.sh PROGRAM_OF_WEIR
# Writes resets.csv and resets.txt into the folder OUT, by default that of this script.
set -eu
here=${OUT:-$(dirname "$(readlink -f "$0")")}
work=$(mktemp -d)
export GOGC=off GOMEMLIMIT=2GiB
perf record -q -a -e tcp:tcp_send_reset -e sock:inet_sock_set_state -o "$work/data" & recording=$!
"$PROGRAMS/kubernetes" trial rollout --weir "$1" --logs "$work/logs" --pods 10 --times 10 --rate 2000 > "$here/resets.csv" || true
kill -INT $recording; wait $recording || true
perf script -i "$work/data" > "$work/text" 2> /dev/null
{
    echo "# resets sent from port 3000 of pods, by the kernel's reason"
    grep tcp_send_reset "$work/text" | grep ":3000" | grep -o "reason=.*" | sort | uniq -c
    echo "# connections of Weir to port 3000 that became CLOSED, by the state before"
    grep inet_sock_set_state "$work/text" | grep "dport=3000" | grep "newstate=TCP_CLOSE$" | grep -o "oldstate=[A-Z_0-9]*" | sort | uniq -c
} > "$here/resets.txt"
rm -r "$work"
