#!/bin/bash
# 20 upgrades of each program while requests come over kept, over short and over HTTP/2 connections, and 1 000 WebSockets are open: what fails is counted.
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
python3 "$here/websockets.py" server 9109 &
sockets=$!
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

measure() { # PROGRAM PORT HTTP/2-PORT
	python3 "$here/websockets.py" client "$2" 1000 60 >"$1-websockets.txt" 2>&1 &
	three=$!
	sleep 3
	wrk -t1 -c32 -d45s "http://127.0.0.1:$2/" >"$1-keepalive.txt" &
	one=$!
	wrk -t1 -c8 -d45s -s short.lua "http://127.0.0.1:$2/" >"$1-short.txt" &
	two=$!
	began=$SECONDS
	until [ $SECONDS -ge $((began + 45)) ]; do h2load -c 4 -m 10 -n 20000 "http://127.0.0.1:$3/"; done >"$1-h2.txt" 2>&1 &
	four=$!
	sleep 2
	for _ in $(seq 20); do
		"upgrade_$1"
		sleep 2
	done
	wait $one $two $three $four
	for kind in keepalive short; do
		requests=$(sed -n 's/ *\([0-9]*\) requests in.*/\1/p' "$1-$kind.txt")
		errors=$(grep -E 'Socket errors|Non-2xx' "$1-$kind.txt" | tr '\n' ' ')
		echo "$1 $kind: $requests requests; ${errors:-no errors}"
	done
	sed -n 's/^requests: //p' "$1-h2.txt" | awk -v program="$1" '
		{ total += $1; ok += $7; failed += $9; errored += $11 }
		END { print program, "h2:", total, "requests;", ok, "succeeded,", failed, "failed,", errored, "errored" }'
	echo "$1: $(cat "$1-websockets.txt")"
}

"$WEIR" serve weir.toml 2>weir.log &
sleep 1
measure weir 9101 9101 | tee -a result.txt
pkill -f "$folder/weir.toml" || pkill -f "serve weir.toml"
# It executes itself by the name with which it was started.
"$(command -v nginx)" -c "$folder/nginx.conf"
sleep 1
measure nginx 9102 9112 | tee -a result.txt
kill -QUIT "$(cat nginx.pid)"
haproxy -W -D -p haproxy.pid -f haproxy.cfg
sleep 1
measure haproxy 9103 9113 | tee -a result.txt
kill "$(cat haproxy.pid)"
kill $server $sockets
