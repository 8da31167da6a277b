# bench.sh SECONDS ROUNDS: CPU us per request of nginx and Weir, interleaved
cd RUN
taskset -c 0 nginx -p RUN -c nginx.conf & 
taskset -c 0 ${WEIR:-weir} serve weir.toml >weir.log 2>&1 & W=$!
sleep 2; N=$(pgrep -P $(cat nginx.pid))
cpu() { awk '{print ($14+$15)}' /proc/$1/stat; }
for f in ${FILES:-173 10k 1m 10m}; do for s in http https; do
 c=64; case $f in 1m) c=16;; 10m) c=4;; esac
 for r in $(seq $2); do for t in nginx weir; do
  case $t-$s in nginx-http) p=9001; pid=$N;; nginx-https) p=9002; pid=$N;; weir-http) p=9011; pid=$W;; weir-https) p=9012; pid=$W;; esac
  a=$(cpu $pid); n=$(taskset -c 1 wrk -t1 -c$c -d$1 $s://127.0.0.1:$p/$f 2>/dev/null | awk '/requests in/ {print $1} /Non-2xx/ {print "BAD"}'); b=$(cpu $pid)
  echo "$f $s $t $(echo "$a $b $n" | awk '{printf "%.2f", ($2-$1)*10000/$3}')"
 done; done; done; done
kill $W; kill $(cat nginx.pid); sleep 2
