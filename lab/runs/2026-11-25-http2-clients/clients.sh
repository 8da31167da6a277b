#!/bin/bash
# Every client directly and through Weir: clients.sh WEIR FOLDER-FOR-FILES [CLIENT ...]
# The output of each is left in FOLDER/CLIENT.direct and FOLDER/CLIENT.to-http1, .to-h2c and .to-h2; a table is printed.
# PYTHON: a Python with httpx and h2.
weir=$1 run=$2; shift 2
clients=${*:-curl nghttp python node go java chromium firefox}
cd "$(dirname "$0")"
export RUN=$run
[ -e "$run/leaf.pem" ] || ./certificates.sh "$run"
go build -o "$run/origin" ./origin && go build -o "$run/goclient" ./goclient || exit 1
GODEBUG=http2xconnect=1 "$run/origin" 9401 9402 "$run/leaf.pem" "$run/leaf.key" pages > "$run/origin.log" 2>&1 & origin=$!
"$weir" serve weir.toml > "$run/weir.log" 2>&1 & proxy=$!
trap 'kill $proxy $origin' EXIT
sleep 1
file=$run/100MB ca=$run/ca.pem
[ -e "$file" ] || curl -s -o "$file" http://127.0.0.1:9401/size/100000000
echo "| client | test | directly | to HTTP/1 | to h2c | to h2 |"
echo "|---|---|---|---|---|---|"
for client in $clients; do
    for way in direct:9402 to-http1:9443 to-h2c:9444 to-h2:9445; do
        base=https://localhost:${way#*:} out=$run/$client.${way%:*}
        case $client in
        curl | nghttp) drivers/$client.sh "$base" "$ca" "$file" ;;
        python) "${PYTHON:-python3}" drivers/python.py "$base" "$ca" "$file" ;;
        node) node drivers/node.mjs "$base" "$ca" "$file" ;;
        go) "$run/goclient" "$base" "$ca" "$file" ;;
        java) java drivers/Client.java "$base" "$ca" "$file" ;;
        *) drivers/browser.sh "$client" "$base" "$ca" ;;
        esac > "$out" 2> "$out.err"
    done
    while read -r test result; do
        line="| $client | $test | $result |"
        for way in to-http1 to-h2c to-h2; do
            there=$(grep "^$test " "$run/$client.$way" | cut -d' ' -f2-)
            if [ "$there" = "$result" ]; then line+=" same |"; else line+=" $there |"; fi
        done
        echo "$line"
    done < "$run/$client.direct"
done
