#!/bin/bash
# 20 upgrades of each program while requests come over kept, over short and over HTTP/2 connections, and 1 000 WebSockets are open: what fails is counted.
# WEIR=PROGRAM [PROGRAMS="weir nginx haproxy"] bash bench.sh FOLDER
set -u
here=$(dirname "$(realpath "$0")")
folder=$(realpath "$1")
mkdir -p "$folder"
(cd "$here/h2client" && go build -o "$folder/h2client" .) || exit 1
cd "$folder"
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
	# It takes no second upgrade before the old master has ended, with all tunnels.
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
	./h2client "http://127.0.0.1:$3/" 4 10 45 >"$1-h2.txt" 2>&1 &
	four=$!
	sleep 2
	began=$SECONDS
	upgrades=0
	while [ $upgrades -lt 20 ] && [ $SECONDS -lt $((began + 42)) ]; do
		"upgrade_$1"
		upgrades=$((upgrades + 1))
		sleep 2
	done
	echo "$1: $upgrades upgrades"
	wait $one $two $three $four
	for kind in keepalive short; do
		requests=$(sed -n 's/ *\([0-9]*\) requests in.*/\1/p' "$1-$kind.txt")
		errors=$(grep -E 'Socket errors|Non-2xx' "$1-$kind.txt" | tr '\n' ' ')
		echo "$1 $kind: $requests requests; ${errors:-no errors}"
	done
	echo "$1 h2: $(tr '\n' ' ' <"$1-h2.txt")"
	echo "$1: $(cat "$1-websockets.txt")"
}

for program in ${PROGRAMS:-weir nginx haproxy}; do
	case $program in
	weir)
		"$WEIR" serve weir.toml 2>weir.log &
		sleep 1
		measure weir 9101 9101
		pkill -f "serve weir.toml"
		;;
	nginx)
		# It executes itself by the name with which it was started.
		"$(command -v nginx)" -c "$folder/nginx.conf"
		sleep 1
		measure nginx 9102 9112
		kill -QUIT "$(cat nginx.pid)"
		;;
	haproxy)
		haproxy -W -D -p haproxy.pid -f haproxy.cfg
		sleep 1
		measure haproxy 9103 9113
		kill "$(cat haproxy.pid)"
		;;
	esac
done | tee -a result.txt
kill $server $sockets
