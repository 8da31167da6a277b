#!/bin/bash
# nghttp and h2load: nghttp.sh BASE CA FILE-OF-100-MB
base=$1 file=$3
sum() { sha256sum | cut -c1-16; }
for n in 0 1 612 16384 100000 1000000; do
    echo "get-$n $(nghttp -nv "$base/size/$n" | grep -o ':status: .*') $(nghttp "$base/size/$n" | sum)"
done
echo "get-100MB $(nghttp -w 24 -W 24 "$base/size/100000000" | sum)"
echo "post-100MB $(nghttp -d "$file" "$base/digest")"
echo "echo-100MB $(nghttp -d "$file" "$base/echo" | sum)"
echo "trailer $(nghttp -nv "$base/trailer" | grep -c 'x-end: here')"
echo "events $(nghttp "$base/events" | "$(dirname "$0")/events.py")"
echo "streams-1000 $(nghttp -m 1000 "$base/size/10000?wait=100ms" | wc -c) bytes"
echo "h2load-1x1000 $(h2load -n 1000 -c 1 -m 1000 "$base/size/10000?wait=100ms" | grep -E '^(status codes|traffic)' | grep -oE '[0-9]+ 2xx|\([0-9]+\) data' | xargs)"
echo "h2load-10x100 $(h2load -n 1000 -c 10 -m 100 "$base/size/10000?wait=100ms" | grep -E '^(status codes|traffic)' | grep -oE '[0-9]+ 2xx|\([0-9]+\) data' | xargs)"
head -c 200000 "$file" > "$file.part"
echo "h2load-post $(h2load -n 200 -c 4 -m 10 -d "$file.part" "$base/digest" | grep -oE "[0-9]+ 2xx")"
