for i in $(seq 1 $1); do
 for what in h2:1m:1 h3:1m:1 h2:100k:10 h3:100k:10; do IFS=: read p f n <<< $what
  t=$(ip netns exec wa h2load-http3 --alpn-list=$p -n$n -c1 -m$n https://10.9.0.2:8443/$f 2>&1 | grep -oE "finished in [0-9.]+m?s" | awk '{print $3}'); echo "$p $f $t"; done; done | awk '{t=$3; if(t ~ /ms$/){sub("ms","",t)} else {sub("s","",t); t*=1000} v[$1" "$2]=v[$1" "$2]" "t} END{for(k in v)print k,v[k]}' | python3 -c "
import sys
for l in sys.stdin:
    p=l.split(); v=sorted(map(float,p[2:])); print(p[0],p[1],'n',len(v),'median',v[len(v)//2],'mean',round(sum(v)/len(v)),v)"
