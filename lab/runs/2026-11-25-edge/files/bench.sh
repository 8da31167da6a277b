#!/bin/bash
# bench.sh FOLDER SECONDS ROUNDS: CPU of nginx, Caddy and Weir as servers of files, µs per request, interleaved; the output has a
# line for each measurement: file, scheme, server, µs.
#
# FOLDER gets the files, a certificate and the configs beside this script, in which RUN is that folder. Servers run on CPU 0 and the
# client, wrk, on CPU 1. WEIR is the program (default: weir), FILES and SERVERS choose some of them, NGINX and CADDY other programs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/site"; run=$(cd "$1" && pwd); seconds=$2 rounds=$3
servers=${SERVERS:-nginx caddy weir}
cd "$run"
for file in 173:173 10k:10240 1m:1048576 10m:10485760; do
  head -c "${file#*:}" /dev/zero | tr '\0' 'x' >"site/${file%:*}"
done
# Weir keeps small files in memory once they have not changed for a second.
touch -d '1 hour ago' site/*
[ -f cert.pem ] || openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -days 30 \
  -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 2>/dev/null
for config in nginx.conf Caddyfile weir.toml; do sed "s|RUN|$run|g" "$here/$config" >"$config"; done
taskset -c 0 "${NGINX:-nginx}" -p "$run" -c nginx.conf & nginx=$!
GOMAXPROCS=1 HOME=$run taskset -c 0 "${CADDY:-caddy}" run --config Caddyfile --adapter caddyfile >caddy.log 2>&1 & caddy=$!
taskset -c 0 "${WEIR:-weir}" serve weir.toml >weir.log 2>&1 & weir=$!
trap 'kill $nginx $caddy $weir' EXIT
sleep 2
pid() { case $1 in nginx) pgrep -P "$nginx" | head -1 ;; caddy) echo $caddy ;; weir) echo $weir ;; esac; }
port() { case $1-$2 in nginx-http) echo 9001 ;; nginx-https) echo 9002 ;; weir-http) echo 9011 ;; weir-https) echo 9012 ;; caddy-http) echo 9021 ;; caddy-https) echo 9022 ;; esac; }
cpu() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
for file in ${FILES:-173 10k 1m 10m}; do for scheme in http https; do
  clients=64; case $file in 1m) clients=16 ;; 10m) clients=4 ;; esac
  for _ in $(seq "$rounds"); do for server in $servers; do
    before=$(cpu "$(pid "$server")")
    said=$(taskset -c 1 wrk -t1 -c$clients -d"$seconds" "$scheme://127.0.0.1:$(port "$server" "$scheme")/$file" 2>&1)
    after=$(cpu "$(pid "$server")")
    if grep -q 'Non-2xx' <<<"$said"; then echo "$server: $said" >&2; exit 1; fi
    requests=$(awk '/requests in/ { print $1 }' <<<"$said")
    awk -v ticks=$((after - before)) -v requests="$requests" -v name="$file $scheme $server" \
      'BEGIN { if (requests == 0) exit 1; printf "%s %.2f\n", name, ticks * 10000 / requests }'
  done; done
done; done
