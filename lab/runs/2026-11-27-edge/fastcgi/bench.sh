# bench.sh SECONDS ROUNDS: CPU us per request of nginx and Weir in front of PHP-FPM, interleaved. RUN is this folder.
cd RUN
mkdir -p site; echo '<?php echo "hello";' > site/hello.php; echo '<?php echo str_repeat("x", 102400);' > site/100k.php
taskset -c 1 ${FPM:-php-fpm8.2} --nodaemonize --allow-to-run-as-root --fpm-config RUN/fpm.conf >fpm.log 2>&1 & P=$!
taskset -c 0 nginx -p RUN -c nginx.conf &
taskset -c 0 ${WEIR:-weir} serve weir.toml >weir.log 2>&1 & W=$!
sleep 2; N=$(pgrep -P $(cat nginx.pid))
cpu() { awk '{print ($14+$15)}' /proc/$1/stat; }
for f in ${FILES:-hello.php hello.php/info 100k.php}; do for k in closed kept; do
 for r in $(seq $2); do for t in nginx weir; do
  case $t-$k in nginx-closed) p=9001; pid=$N;; nginx-kept) p=9002; pid=$N;; weir-closed) p=9011; pid=$W;; weir-kept) p=9012; pid=$W;; esac
  a=$(cpu $pid); n=$(taskset -c 1 wrk -t1 -c${CLIENTS:-8} -d$1 http://127.0.0.1:$p/$f 2>/dev/null | awk '/requests in/ {print $1} /Non-2xx/ {print "BAD"}'); b=$(cpu $pid)
  echo "$f $k $t $(echo "$a $b $n" | awk '{printf "%.2f", ($2-$1)*10000/$3}')"
 done; done; done; done
kill $W $P; kill $(cat nginx.pid); sleep 2
