# run.sh SECONDS ROUNDS: 1 000 keys at 10/s over two workers; wrk has two threads and 64 connections. The origin's log says what passed.
cd "$(dirname "$0")"
for r in $(seq $2); do
 rm -f /tmp/limit-origin.log
 nginx -p /tmp -c $PWD/origin.conf & 
 ${WEIR:-weir} serve weir.toml >/tmp/limit.log 2>&1 & W=$!
 sleep 1
 wrk -t2 -c64 -d$1 -s keys.lua http://127.0.0.1:9411/ | grep -E 'requests in|Non-2xx|Socket'
 curl -s http://127.0.0.1:9412/metrics | grep -E '^weir_worker_exchanges_total'
 kill $W; wait $W; kill $(cat /tmp/limit-origin.pid); sleep 1
 awk '{ n[$1]++; if (!first || $2 < first) first = $2; if ($2 > last) last = $2 }
  END { s = last - first; least = 1e9; for (k in n) { keys++; sum += n[k]; if (n[k] < least) least = n[k]; if (n[k] > most) most = n[k] }
   may = 10 + 10 * s; printf "%d keys in %.3f s, each may %.1f: passed least %d (%.3f), mean %.2f (%.3f), most %d (%.3f)\n", keys, s, may, least, least/may, sum/keys, sum/keys/may, most, most/may }' /tmp/limit-origin.log
done
