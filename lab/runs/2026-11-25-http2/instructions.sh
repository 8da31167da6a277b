#!/bin/bash
# Instructions of user code per request, by valgrind: the difference between two lengths of the same load.
# instructions.sh WEIR CONFIG URL CONNECTIONS STREAMS [--h1]
weir=$1 config=$2 url=$3 connections=$4 streams=$5 protocol=$6
short=2000 long=12000
count() {
    valgrind --tool=callgrind --callgrind-out-file=callgrind.$1 "$weir" serve "$config" > weir.log 2>&1 &
    pid=$!
    until grep -q ^ready weir.log; do sleep 0.2; done
    h2load $protocol -n 200 -c "$connections" -m "$streams" "$url" > /dev/null
    h2load $protocol -n "$1" -c "$connections" -m "$streams" "$url" > /dev/null
    kill -TERM $pid
    wait $pid
    grep -o "Collected : [0-9]*" weir.log | cut -d' ' -f3
}
before=$(count $short)
after=$(count $long)
echo "$(((after - before) / (long - short))) instructions per request"
