#!/usr/bin/env python3
"""`slowhttptest -X` beside a client that behaves well, with the TCP memory of the kernel sampled four times a second: `run.py WEIR FIGURES`."""
import sys,os,json,time,threading,subprocess,pathlib,re
os.environ["FIGURES"]=sys.argv[2]
here=pathlib.Path(__file__).parent.parent / "2026-11-26-hostile"
src=(here/"run.py").read_text().split('if WHAT in ("memory"')[0]
sys.argv=[str(here/"run.py"),sys.argv[1],"none"]
g={"__file__":str(here/"run.py"),"__name__":"m"}
exec(compile(src,"run.py","exec"),g)
samples=[];stop=[]
def watch():
    while not stop:
        t=open("/proc/net/sockstat").read(); m=re.search(r"TCP:.* mem (\d+)",t); samples.append(int(m[1])*4096>>20); time.sleep(.25)
def stat():
    a=open("/proc/net/netstat").read().splitlines(); d={}
    for k,v in zip(a[::2],a[1::2]): d.update(zip(k.split()[1:],map(int,v.split()[1:])))
    return {k:d[k] for k in ("TCPAbortOnMemory","TCPMemoryPressures")}
before=stat(); threading.Thread(target=watch,daemon=True).start()
site=g["Site"]()
g["attack"](site,"slowhttptest -X (slow read)",lambda: g["slowhttptest"](site,["-X"],"-w","512","-y","1024","-n","5","-z","32","-k","3"))
mem=site.memory(); after=stat()
print(json.dumps({"kernel":{k:after[k]-before[k] for k in after},"tcp_mem_mib":samples,"slow_ended":mem["slow_ended"]}))
print([l for l in open(site.folder/"weir.log") if "TCP" in l or "emory" in l][-4:])
stop.append(1); site.close()
