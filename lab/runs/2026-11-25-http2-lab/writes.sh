#!/bin/bash
# System calls of Weir for 40 000 requests of HTTP/2 to servers of HTTP/1: writes.sh WEIR CONFIG URL. CONFIG has one worker and `http2.prior_knowledge`.
weir=$1 config=$2 url=$3
taskset -c 1 "$weir" serve "$config" > /dev/null 2>&1 & pid=$!
sleep 1
for load in "10 10" "1 100"; do
    read -r connections streams <<< "$load"
    taskset -c 0 h2load -n 5000 -c "$connections" -m "$streams" "$url" > /dev/null
    strace -f -c -p $pid -o strace.txt 2> /dev/null & trace=$!
    sleep 1
    taskset -c 0 h2load -n 40000 -c "$connections" -m "$streams" "$url" > /dev/null
    kill -INT $trace
    wait $trace
    echo "$connections x $streams: $(awk '/send|recv|epoll_wait/ { print $NF, $4 }' strace.txt | tr '\n' ' ')"
done
kill $pid
