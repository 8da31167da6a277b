#!/bin/bash
# bench.sh FOLDER SECONDS ROUNDS: CPU of nginx, Varnish and Weir per cache hit, µs, interleaved; a line for each measurement: size, server, µs.
#
# FOLDER gets the configs beside this script, in which RUN is that folder. Servers run on CPU 0, the client (wrk) and the origin (an nginx) on
# CPU 1; the origin is asked once for each response. WEIR is the program (default: weir).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/site" "$1/nginx-cache"; run=$(cd "$1" && pwd); seconds=$2 rounds=$3
cd "$run"
for file in 1k:1024 100k:102400; do head -c "${file#*:}" /dev/zero | tr '\0' 'x' >"site/${file%:*}"; done
for config in origin.conf nginx.conf weir.toml varnish.vcl; do sed "s|RUN|$run|g" "$here/$config" >"$config"; done
taskset -c 1 nginx -p "$run" -c origin.conf & origin=$!
taskset -c 0 nginx -p "$run" -c nginx.conf & nginx=$!
taskset -c 0 "${WEIR:-weir}" serve weir.toml >weir.log 2>&1 & weir=$!
taskset -c 0 varnishd -F -j none -n "$run/varnish" -a 127.0.0.1:9103 -f "$run/varnish.vcl" -s malloc,64M \
  -p thread_pools=1 -p thread_pool_min=10 >varnish.log 2>&1 & varnish=$!
trap 'kill $nginx $weir $varnish $origin' EXIT
sleep 3
pid() { case $1 in nginx) pgrep -P "$nginx" | head -1 ;; weir) echo $weir ;; varnish) pgrep -P "$varnish" | head -1 ;; esac; }
port() { case $1 in nginx) echo 9101 ;; weir) echo 9102 ;; varnish) echo 9103 ;; esac; }
cpu() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
for file in 1k 100k; do
  for server in nginx varnish weir; do for _ in 1 2 3; do curl -sfo /dev/null "http://127.0.0.1:$(port $server)/$file"; done; done
  for _ in $(seq "$rounds"); do for server in nginx varnish weir; do
    before=$(cpu "$(pid $server)")
    said=$(taskset -c 1 wrk -t1 -c64 -d"$seconds" "http://127.0.0.1:$(port $server)/$file" 2>&1)
    after=$(cpu "$(pid $server)")
    if grep -q 'Non-2xx' <<<"$said"; then echo "$server: $said" >&2; exit 1; fi
    requests=$(awk '/requests in/ { print $1 }' <<<"$said")
    awk -v ticks=$((after - before)) -v requests="$requests" -v name="$file $server" \
      'BEGIN { if (requests == 0) exit 1; printf "%s %.2f\n", name, ticks * 10000 / requests }'
  done; done
done
echo "asked of the origin: $(wc -l <origin.log)" >&2
