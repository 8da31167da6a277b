#!/bin/bash
# Memory of idle connections of HTTP/2, of Weir and others: measure.sh WEIR ENVOY ORIGIN FOLDER-WITH-CERTIFICATES
# Each proxy is started anew for each measurement.
weir=$1 envoy=$2 origin=$3
export RUN=$4
cd "$(dirname "$0")"
cat "$RUN/leaf.pem" "$RUN/leaf.key" > "$RUN/both.pem"
measure() { # TARGET KIND STREAMS FEW MANY UPSTREAM
    local target=$1 kind=$2 upstream=$6 port
    "$origin" 9700 9799 "$RUN/leaf.pem" "$RUN/leaf.key" > /dev/null 2>&1 & local server=$!
    case $target in
    weir) UPSTREAM=$upstream "$weir" serve weir.toml > "$RUN/$target.log" 2>&1 & port=9701 ;;
    nginx) sed "s|RUN|$RUN|g; 1s|^|user root; |" nginx.conf > "$RUN/nginx.conf"; nginx -c "$RUN/nginx.conf" > "$RUN/$target.log" 2>&1 & port=9711 ;;
    haproxy) sed "s|RUN|$RUN|g; s|PROTO|$([ "$upstream" = h2c ] && echo proto h2)|" haproxy.cfg > "$RUN/haproxy.cfg"; haproxy -f "$RUN/haproxy.cfg" > "$RUN/$target.log" 2>&1 & port=9721 ;;
    envoy) sed "s|RUN|$RUN|g; s|PROTO|$([ "$upstream" = h2c ] && echo "http2_protocol_options: { max_concurrent_streams: 100 }" || echo "http_protocol_options: {}")|" envoy.yaml > "$RUN/envoy.yaml"
        "$envoy" -c "$RUN/envoy.yaml" --concurrency 1 -l error > "$RUN/$target.log" 2>&1 & port=9731 ;;
    esac
    local proxy=$!
    sleep 2
    [ "$kind" = tls ] && port=$((port + 1))
    echo "$target $kind streams=$3 to $upstream: $(timeout 300 python3 idle.py "$kind" $port "$3" "$4" "$5" $proxy $(pgrep -P $proxy) 2>&1 | tail -1 | cut -c1-300)"
    kill $proxy; wait $proxy 2> /dev/null
    kill -9 $server; wait $server 2> /dev/null
    sleep 1
}
for target in ${TARGETS:-weir nginx haproxy envoy}; do
    [ -n "$ONLY_STREAMS" ] || measure $target plain 0 2000 9000 http1
    [ -n "$ONLY_STREAMS" ] || measure $target tls 0 2000 9000 http1
    # 100 streams on each connection.
    measure $target plain 100 15 85 http1
    measure $target tls 100 15 85 http1
    [ $target = nginx ] || measure $target plain 100 15 85 h2c
done
