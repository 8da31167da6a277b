#!/bin/bash
# connectconformance against referenceserver directly, and with Weir in front: run.sh WEIR FOLDER-OF-THE-SUITE
weir=$1 suite=$2
cd "$(dirname "$0")"
echo "directly: $("$suite/connectconformance" --conf config.yaml --mode server -- "$suite/referenceserver" 2>&1 | grep passed)"
for upstream in same tls http1 h2c web; do
    conf=config.yaml
    # gRPC needs HTTP/2 to the server, and streams in both directions at once do not fit HTTP/1.
    skip=()
    [ $upstream = http1 ] && conf=config-http1.yaml skip=(--skip "**/full-duplex" --skip "**/full-duplex/**")
    echo "$upstream: $("$suite/connectconformance" "${skip[@]}" --conf $conf --mode server -- ./server.py "$weir" "$suite/referenceserver" $upstream 2>&1 | grep passed)"
done
