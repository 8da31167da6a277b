# run.sh SECONDS ROUNDS: CPU us per GET of the whole process, without `mirror`, with a share of 0 %, and with all copied; interleaved.
cd "$(dirname "$0")"
taskset -c 1 nginx -p /tmp -c $PWD/origin.conf &
taskset -c 0 ${WEIR:-weir} serve weir.toml >/tmp/mirror.log 2>&1 & W=$!
sleep 2
cpu() { awk '{print ($14+$15)}' /proc/$W/stat; }
for r in $(seq $2); do for t in absent-9421 nothing-9422 everything-9423; do
 a=$(cpu); n=$(taskset -c 1 wrk -t1 -c64 -d$1 http://127.0.0.1:${t#*-}/ | awk '/requests in/ {print $1} /Non-2xx/ {print "BAD"}'); b=$(cpu)
 echo "${t%-*} $(echo "$a $b $n" | awk '{printf "%.2f", ($2-$1)*10000/$3}')"
done; done
kill $W; kill $(cat /tmp/mirror-origin.pid); sleep 1
