#!/bin/bash
# 20 upgrades of each program while wrk sends requests over kept and over short connections: what fails is counted.
# WEIR=PROGRAM bash bench.sh FOLDER
set -u
folder=$(realpath "$1")
mkdir -p "$folder"
cd "$folder"
here=$(dirname "$(realpath "$0")")
sed "s|RUN|$folder|g" "$here/weir.toml" >weir.toml
sed "s|RUN|$folder|g" "$here/nginx.conf" >nginx.conf
sed "s|RUN|$folder|g" "$here/haproxy.cfg" >haproxy.cfg
printf 'wrk.headers["Connection"] = "close"\n' >short.lua

"$WEIR" serve "$here/server.toml" 2>server.log &
server=$!
sleep 1

upgrade_weir() { "$WEIR" upgrade --admin "unix:$folder/weir.sock" >>upgrades.log 2>&1; }
upgrade_nginx() {
	old=$(cat nginx.pid)
	kill -USR2 "$old"
	until [ -e nginx.pid ] && [ "$(cat nginx.pid)" != "$old" ]; do sleep 0.05; done
	kill -QUIT "$old"
	# It takes no second upgrade before the old master has ended.
	while kill -0 "$old" 2>/dev/null; do sleep 0.05; done
}
upgrade_haproxy() { kill -USR2 "$(cat haproxy.pid)"; }

measure() { # PROGRAM PORT
	wrk -t1 -c32 -d45s "http://127.0.0.1:$2/" >"$1-keepalive.txt" &
	one=$!
	wrk -t1 -c8 -d45s -s short.lua "http://127.0.0.1:$2/" >"$1-short.txt" &
	two=$!
	sleep 2
	for _ in $(seq 20); do
		"upgrade_$1"
		sleep 2
	done
	wait $one $two
	for kind in keepalive short; do
		requests=$(sed -n 's/ *\([0-9]*\) requests in.*/\1/p' "$1-$kind.txt")
		errors=$(grep -E 'Socket errors|Non-2xx' "$1-$kind.txt" | tr '\n' ' ')
		echo "$1 $kind: $requests requests; ${errors:-no errors}"
	done
}

"$WEIR" serve weir.toml 2>weir.log &
sleep 1
measure weir 9101 | tee -a result.txt
pkill -f "$folder/weir.toml" || pkill -f "serve weir.toml"
# It executes itself by the name with which it was started.
"$(command -v nginx)" -c "$folder/nginx.conf"
sleep 1
measure nginx 9102 | tee -a result.txt
kill -QUIT "$(cat nginx.pid)"
haproxy -W -D -p haproxy.pid -f haproxy.cfg
sleep 1
measure haproxy 9103 | tee -a result.txt
kill "$(cat haproxy.pid)"
kill $server
