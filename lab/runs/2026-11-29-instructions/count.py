#!/usr/bin/env python3
"""count.py WEIR get|post|h2 [--keep FILE]: instructions per exchange under callgrind."""
import sys,os,socket,struct,subprocess,threading,selectors,signal,tempfile,re,time
FOLDER=None
weir,kind=sys.argv[1:3]
keep=sys.argv[4] if len(sys.argv)>4 else None
GET=b"GET /products/42?sort=price HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n"
POST=b"POST /events HTTP/1.1\r\nHost: shop.example.com\r\nUser-Agent: curl/8.5.0\r\nContent-Type: application/json\r\nContent-Length: 1024\r\n\r\n"+b"w"*1024
RESP=b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 612\r\n\r\n"+b"w"*612
def server():
    l=socket.create_server(("127.0.0.1",0),backlog=500)
    def run():
        s=selectors.DefaultSelector(); l.setblocking(False); s.register(l,1,None)
        while True:
            for k,_ in s.select():
                if k.data is None:
                    c,_=l.accept(); c.setsockopt(socket.IPPROTO_TCP,socket.TCP_NODELAY,1); s.register(c,1,bytearray())
                else:
                    try: d=k.fileobj.recv(65536)
                    except OSError: d=b""
                    if not d: s.unregister(k.fileobj); k.fileobj.close(); continue
                    b=k.data; b+=d
                    while (i:=b.find(b"\r\n\r\n"))>=0:
                        n=i+4+(1024 if b.startswith(b"POST") else 0)
                        if len(b)<n: break
                        del b[:n]; k.fileobj.setblocking(True); k.fileobj.sendall(RESP)
    threading.Thread(target=run,daemon=True).start()
    return l.getsockname()[1]
def rd(s,n):
    b=bytearray()
    while len(b)<n:
        d=s.recv(n-len(b)); assert d; b+=d
    return b
def h1(port,n):
    s=socket.create_connection(("127.0.0.1",port)); s.setsockopt(socket.IPPROTO_TCP,socket.TCP_NODELAY,1)
    req=GET if kind=="get" else POST
    b=b""
    for _ in range(n):
        s.sendall(req); b=bytearray()
        while (i:=b.find(b"\r\n\r\n"))<0 or len(b)<i+4+612: 
            d=s.recv(65536); assert d; b+=d
        assert b.startswith(b"HTTP/1.1 200"),b
        assert len(b)==i+4+612
def frame(t,f,sid,p=b""): return struct.pack(">I",len(p))[1:]+bytes([t,f])+struct.pack(">I",sid)+p
def lit(idx,v): return bytes([idx,len(v)])+v
# indexed fields as a client that has sent them once: literal w. incremental indexing first
HP1=bytes([0x82,0x86])+lit(0x44,b"/products/42?sort=price")+lit(0x41,b"shop.example.com")+lit(0x7a,b"curl/8.5.0")+lit(0x53,b"*/*")
HP2=bytes([0x82,0x86,0xc1,0xc0,0xbf,0xbe])
def h2(port,n,conns=10,streams=10):
    cs=[]
    for _ in range(conns):
        s=socket.create_connection(("127.0.0.1",port)); s.setsockopt(socket.IPPROTO_TCP,socket.TCP_NODELAY,1)
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(4,0,0,struct.pack(">HI",4,1<<20))+frame(8,0,0,struct.pack(">I",(1<<31)-1-65535)))
        cs.append([s,1,True,0,bytearray()])
    left=n
    sel=selectors.DefaultSelector()
    def batch(c,k):
        o=b""
        for _ in range(k):
            o+=frame(1,5,c[1],HP1 if c[2] else HP2); c[2]=False; c[1]+=2
        c[3]+=k; c[0].sendall(o)
    for c in cs:
        k=min(streams,left); left-=k; batch(c,k); sel.register(c[0],1,c)
    done=0
    while done<n:
        for k,_ in sel.select():
            c=k.data; d=c[0].recv(1<<18); assert d; b=c[4]; b+=d; fin=0; at=0
            while len(b)-at>=9:
                ln=int.from_bytes(b[at:at+3],'big')
                if len(b)-at<9+ln: break
                t,f=b[at+3],b[at+4]
                if t==4 and not f&1: c[0].sendall(frame(4,1,0))
                assert t not in (3,7),(t,bytes(b[at:at+9+ln]))
                if t in(0,1) and f&1: fin+=1
                at+=9+ln
            del b[:at]
            done+=fin; c[3]-=fin
            k2=min(fin,left); left-=k2
            if k2: batch(c,k2)
def run(n,out):
    sp=server()
    cfg=tempfile.NamedTemporaryFile("w",suffix=".toml",delete=False,dir=FOLDER)
    more='listener.web.http2.prior_knowledge = "allowed"\n' if kind=="h2" else ""
    cfg.write(f'process.workers = 1\nlistener.web.address = "127.0.0.1:0"\nlistener.web.upstream = "app"\n{more}upstream.app.servers = ["127.0.0.1:{sp}"]\n'); cfg.close()
    p=subprocess.Popen(["valgrind","--tool=callgrind","--quiet","--separate-threads=yes",f"--callgrind-out-file={out}",weir,"serve",cfg.name],stderr=subprocess.PIPE,stdout=subprocess.DEVNULL,text=True)
    port=None
    for line in p.stderr:
        m=re.search(r"^listening .*address=127.0.0.1:(\d+)",line)
        if m: port=int(m[1])
        if line.strip()=="ready": break
    threading.Thread(target=lambda:[0 for _ in p.stderr],daemon=True).start()
    (h2 if kind=="h2" else h1)(port,n)
    p.send_signal(signal.SIGTERM); assert p.wait()==0
    os.unlink(cfg.name)
    import glob
    t={}
    for f in glob.glob(out+"-*"):
        for l in open(f):
            if l.startswith("totals:"): t[f[-2:]]=int(l.split()[1])
    return t
N=int(os.environ.get("N","2000"))
with tempfile.TemporaryDirectory(dir=FOLDER) as d:
    a=run(N,d+"/a"); o=keep or d+"/b"; b=run(2*N,o)
    diff=sorted((((b[k]-a.get(k,0))/N,k) for k in b),reverse=True)
    print(kind,"sum",sum(b.values())/N-sum(a.values())/N,"worker",diff[0])
