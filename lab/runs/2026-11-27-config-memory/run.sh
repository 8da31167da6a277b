#!/bin/bash
# Memory of Weir after its start and after reloads of a config with many routes. Usage: run.sh NAME PROGRAM OF WEIR [ROUTES]
# Appends to memory.csv: the private memory of each process, in kB (Private_Dirty and Private_Clean of smaps_rollup).
set -eu
here=$(dirname "$(readlink -f "$0")")
name=$1 weir=$2 routes=${3:-5000}
folder=$(mktemp -d)
python3 - "$routes" > "$folder/first.toml" <<'PYTHON'
import sys
print('[listener.main]\naddress = "127.0.0.1:8099"\n')
for route in range(int(sys.argv[1])):
    print(f'[[listener.main.route]]\nhost = ["route-{route:05d}.example"]\nupstream = "service-{route % 100}"\n'
          'response_headers = { set = { Mark = "one of many" } }\n')
for service in range(100):
    print(f'[upstream.service-{service}]\nservers = ["127.0.0.1:{20000 + service}", "127.0.0.1:{21000 + service}"]\n')
PYTHON
cp "$folder/first.toml" "$folder/weir.toml"
"$weir" serve "$folder/weir.toml" > "$folder/log" 2>&1 & main=$!
until grep -q '^ready' "$folder/log"; do sleep 0.1; done
[ -s "$here/memory.csv" ] || echo "program,routes,after,process,private_kb" > "$here/memory.csv"
tell() { # AFTER WHAT
    sleep 4
    for process in $main $(pgrep -P $main); do
        private=$(awk '/^Private/{sum += $2} END{print sum}' "/proc/$process/smaps_rollup")
        echo "$name,$routes,$1,$(cat "/proc/$process/comm"),$private" >> "$here/memory.csv"
    done
}
tell start
for reload in 1 2 3 4; do
    sed "0,/one of many/s//number $reload/" "$folder/first.toml" > "$folder/weir.toml"
    kill -HUP $main
    tell "reload $reload"
done
kill $main; wait $main || true
rm -r "$folder"
