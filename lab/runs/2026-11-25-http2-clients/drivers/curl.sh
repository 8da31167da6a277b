#!/bin/bash
# curl: curl.sh BASE CA FILE-OF-100-MB
base=$1 ca=$2 file=$3
get() { curl -s --http2 --cacert "$ca" "$@"; }
sum() { sha256sum | cut -c1-16; }
for n in 0 1 612 16384 100000 1000000; do
    echo "get-$n $(get -o /dev/null -w '%{http_code} HTTP/%{http_version}' "$base/size/$n") $(get "$base/size/$n" | sum)"
done
echo "status-404 $(get -o /dev/null -w '%{http_code}' "$base/status/404")"
echo "status-204 $(get -o /dev/null -w '%{http_code}' "$base/status/204")"
echo "get-100MB $(get "$base/size/100000000" | sum)"
echo "post-100MB $(get --data-binary "@$file" "$base/digest")"
echo "echo-100MB $(get -T "$file" "$base/echo" | sum)"
echo "events $(get -N "$base/events" | "$(dirname "$0")/events.py")"
streams=$(mktemp -d)
curl -s --http2 --cacert "$ca" --parallel --parallel-max 300 -w '%{http_code}\n' -o "$streams/#1" "$base/size/10000?wait=100ms&i=[1-1000]" > "$streams.codes"
echo "streams-1000 $(grep -c 200 "$streams.codes") $(cat "$streams"/* | sum)"
rm -r "$streams" "$streams.codes"
id=curl-$RANDOM$RANDOM
get --max-time 0.5 -o /dev/null "$base/slow?id=$id" --next -s --http2 --cacert "$ca" -o /dev/null -w 'then %{http_code}' "$base/size/10" > /tmp/curl-cancel.txt
echo "cancel $(get "$base/state?id=$id") $(cat /tmp/curl-cancel.txt)"
