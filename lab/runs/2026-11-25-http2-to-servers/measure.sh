#!/bin/bash
# CPU microseconds of a proxy per request, HTTP/2 on both sides: interleaved rounds, proxy on core 1, load and origin on core 0.
# measure.sh WEIR ENVOY ROUNDS
weir=$1 envoy=$2 rounds=${3:-9}
cd "$(dirname "$0")"
mkdir -p /tmp/h2www; head -c 612 /dev/zero | tr '\0' x > /tmp/h2www/index.html; head -c 100 /dev/zero | tr '\0' x > /tmp/h2www/hundred
taskset -c 0 nghttpd -d /tmp/h2www --no-tls -n1 --trailer='grpc-status: 0' --echo-upload 8802 >/dev/null 2>&1 & nghttpd=$!
taskset -c 0 nginx -p /tmp -c "$PWD/nginx-origin.conf"
taskset -c 1 "$weir" serve weir-h2.toml >/dev/null 2>&1 & w2=$!
taskset -c 1 "$weir" serve weir-h1.toml >/dev/null 2>&1 & w1=$!
taskset -c 1 haproxy -f haproxy.cfg >/dev/null 2>&1 & ha=$!
taskset -c 1 "$envoy" -c envoy.yaml --concurrency 1 --use-dynamic-base-id --log-level off >/dev/null 2>&1 & en=$!
taskset -c 1 nginx -p /tmp -c "$PWD/nginx-grpc.conf"
sleep 3
ng=$(pgrep -P "$(cat /tmp/nginx-grpc.pid)" | head -1)
# Nanoseconds on a CPU, of all threads.
spent() { cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%.0f", sum }'; }
# NAME PID H2LOAD-ARGUMENTS: requests are repeated to last about two seconds.
one() {
    name=$1 pid=$2 n=$3; shift 3
    before=$(spent "$pid")
    out=$(taskset -c 0 h2load -n "$n" "$@" 2>&1)
    after=$(spent "$pid")
    ok=$(echo "$out" | grep -o '[0-9]* 2xx' | cut -d' ' -f1)
    echo "$name $ok $(awk -v t=$((after - before)) -v n="$ok" 'BEGIN { printf "%.3f", t / 1000 / n }')"
}
grpc=(-d /tmp/h2www/hundred -H 'content-type: application/grpc' -H 'te: trailers')
for round in $(seq "$rounds"); do
    one weir-h1-64x1 $w1 150000 --h1 -c 64 http://127.0.0.1:8811/index.html
    one weir-1x100 $w2 200000 -c 1 -m 100 http://127.0.0.1:8801/index.html
    one haproxy-1x100 $ha 200000 -c 1 -m 100 http://127.0.0.1:8821/index.html
    one envoy-1x100 $en 100000 -c 1 -m 100 http://127.0.0.1:8831/index.html
    one weir-10x10 $w2 200000 -c 10 -m 10 http://127.0.0.1:8801/index.html
    one haproxy-10x10 $ha 200000 -c 10 -m 10 http://127.0.0.1:8821/index.html
    one envoy-10x10 $en 100000 -c 10 -m 10 http://127.0.0.1:8831/index.html
    one weir-grpc $w2 100000 -c 10 -m 10 "${grpc[@]}" http://127.0.0.1:8801/a.B/C
    one envoy-grpc $en 60000 -c 10 -m 10 "${grpc[@]}" http://127.0.0.1:8831/a.B/C
    one nginx-grpc $ng 60000 -c 10 -m 10 "${grpc[@]}" http://127.0.0.1:8841/a.B/C
done
kill $w1 $w2 $ha $en $nghttpd; kill "$(cat /tmp/nginx-grpc.pid)" "$(cat /tmp/nginx-origin.pid)"
