#!/bin/bash
# Two programs of Weir, with and without the bound of TCP_NOTSENT_LOWAT, in interleaved rounds:
#   measure.sh BOUNDED UNBOUNDED FOLDER ROUNDS
# Prints one line for each round: program, load, MB/s or requests/s, milliseconds of CPU of Weir.
bounded=$1 unbounded=$2 folder=$3 rounds=$4
mkdir -p "$folder/www"
[ -f "$folder/www/large" ] || head -c 100000000 /dev/zero > "$folder/www/large"
head -c 612 /dev/zero > "$folder/www/small"
cat > "$folder/nginx.conf" <<N
user root; worker_processes 1; pid $folder/nginx.pid; error_log $folder/nginx.log;
events { worker_connections 1000; }
http { access_log off; sendfile on; keepalive_requests 1000000; server { listen 127.0.0.1:9800 reuseport; root $folder/www; } }
N
nginx -c "$folder/nginx.conf" || exit 1
trap 'kill $(cat "$folder/nginx.pid")' EXIT
cat > "$folder/weir.toml" <<W
process.workers = 1
[listener.web]
address = "127.0.0.1:9801"
upstream = "app"
http2.prior_knowledge = "allowed"
[upstream.app]
servers = ["127.0.0.1:9800"]
W
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) * 1000 / hz }' "/proc/$1/stat"; }
run() { # NAME LOAD URL-PATH H2LOAD-ARGUMENTS
    local name=$1 load=$2 path=$3 before after finished
    shift 3
    before=$(cpu_ms "$weir")
    finished=$(h2load --no-tls-proto=h2c "$@" "http://127.0.0.1:9801/$path" | grep '^finished in')
    after=$(cpu_ms "$weir")
    echo "$name | $load | $finished | CPU ms $((after - before))"
}
for round in $(seq "$rounds"); do
    for name in bounded unbounded; do
        "${!name}" serve "$folder/weir.toml" > "$folder/$name.log" 2>&1 & weir=$!
        sleep 0.5
        run $name "1 x 100 MB, 12 times" large -c 1 -m 1 -n 12
        run $name "10 streams x 100 MB" large -c 1 -m 10 -n 20 -w 20 -W 24
        run $name "100 streams, 612 bytes" small -c 1 -m 100 -n 100000
        kill $weir; wait $weir 2> /dev/null
    done
done
