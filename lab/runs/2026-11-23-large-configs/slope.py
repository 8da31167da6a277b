#!/usr/bin/env python3
"""Memory of an idle Weir: slope.py WEIR CONFIG...

Prints resident and anonymous memory in KiB after 2, 4, 6 and 8 seconds, twice for each config, and the peak."""
import subprocess,sys,time,urllib.request,os
w=sys.argv[1]
def st(pid,k): return next(int(l.split()[1]) for l in open(f"/proc/{pid}/status") if l.startswith(k))
for f in sys.argv[2:]:
    for r in range(2):
        try: os.unlink("/tmp/weir-large.sock")
        except OSError: pass
        p=subprocess.Popen([w,"serve",f],stderr=subprocess.DEVNULL)
        while True:
            try:
                urllib.request.urlopen("http://127.0.0.1:9911/ready",timeout=60); break
            except OSError: time.sleep(.01)
        out=[]
        for s in (1,3,5,8):
            time.sleep(2); out.append((st(p.pid,"VmRSS"),st(p.pid,"RssAnon")))
        print(f,out,st(p.pid,"VmHWM"),flush=True)
        p.terminate(); p.wait()
