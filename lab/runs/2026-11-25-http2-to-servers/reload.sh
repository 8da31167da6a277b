#!/bin/bash
# 100 reloads, and a server killed and started again every second, under load: reload.sh WEIR
weir=$1
cd "$(dirname "$0")"
cp reload.toml /tmp/reload-now.toml
nghttpd -d /tmp/h2www --no-tls -n1 --echo-upload --trailer='grpc-status: 0' 8802 >/dev/null 2>&1 & a=$!
nghttpd -d /tmp/h2www --no-tls -n1 --echo-upload --trailer='grpc-status: 0' 8805 >/dev/null 2>&1 & b=$!
"$weir" serve /tmp/reload-now.toml > /tmp/reload.log 2>&1 & w=$!
sleep 1
h2load -D 32 -c 10 -m 10 http://127.0.0.1:8801/index.html > /tmp/reload-h2.txt 2>&1 & l1=$!
sleep 1
for i in $(seq 100); do
    sed "s/^protocol = .*/protocol = \"h2c\"\ntimeouts.response = \"$((20 + i % 30))s\"/" reload.toml > /tmp/reload-now.toml
    kill -HUP $w
    if [ $((i % 4)) = 0 ]; then
        kill -9 $b; wait $b 2>/dev/null
        nghttpd -d /tmp/h2www --no-tls -n1 --echo-upload --trailer='grpc-status: 0' 8805 >/dev/null 2>&1 & b=$!
    fi
    sleep 0.28
done
wait $l1
grep -E 'requests:|status codes' /tmp/reload-h2.txt
curl -s http://127.0.0.1:8890/metrics | grep -E '^weir_(server_(stale_reuses|unprocessed)|upstream_retries_total|upstream_failures|upstream_retries_refused|reloads)' | grep -v ' 0$'
kill $w $a $b
