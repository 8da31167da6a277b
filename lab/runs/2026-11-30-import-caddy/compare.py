import sys,os,re,json,subprocess,threading,http.server,socketserver,ssl,socket,time,http.client
# compare.py CADDYFILE WEIR_TOML, in a namespace: unshare -nm, with loopback up and the names of servers in /etc/hosts.
cf,toml=sys.argv[1:3]
text=open(cf).read()
seen=[]
class H(http.server.BaseHTTPRequestHandler):
    protocol_version='HTTP/1.1'
    def any(self):
        n=int(self.headers.get('content-length') or 0); b=self.rfile.read(n) if n else b''
        if self.headers.get('transfer-encoding')=='chunked':
            b=b''
            while True:
                l=int(self.rfile.readline().split(b';')[0],16)
                if l==0: self.rfile.readline(); break
                b+=self.rfile.read(l); self.rfile.readline()
        seen.append((self.server.server_address[1],self.command,self.path,sorted((k.lower(),v) for k,v in self.headers.items()),b.decode('latin1')))
        st=int(self.headers.get('x-answer') or 200)
        out=(('port %d path %s '%(self.server.server_address[1],self.path))+'x'*int(self.headers.get('x-long') or 0)).encode()
        self.send_response(st); self.send_header('content-type',self.headers.get('x-type') or 'text/plain'); self.send_header('content-length',str(len(out)))
        self.send_header('x-backend','b'); self.send_header('cache-control','max-age=5'); self.send_header('x-powered-by','php')
        self.end_headers()
        if self.command!='HEAD': self.wfile.write(out)
    def __getattr__(self,n):
        if n.startswith('do_'): return self.any
        raise AttributeError(n)
    def log_message(self,*a): pass
class S(socketserver.ThreadingMixIn,http.server.HTTPServer):
    daemon_threads=True; allow_reuse_address=True
t=open(toml).read()
ports=set(int(p) for p in re.findall(r'"[A-Za-z0-9_.-]+:(\d+)"',' '.join(re.findall(r'servers = .*',t))))
for p in ports:
    try: s=S(('127.0.0.1',p),H); threading.Thread(target=s.serve_forever,daemon=True).start()
    except OSError as e: print('port',p,e)
listen=[]
for m in re.finditer(r'\[listener\.([^\]]+)\]\naddress = (.*)\n((?:.*\n)*?)\n',t+'\n\n'):
    tls='tls' in re.split(r'\n\s*\n',t[m.start():],1)[0]
    for p in re.findall(r':(\d+)"',m.group(2)): listen.append((int(p),tls))
hosts=set(re.findall(r'host = "([^"]+)"',t))
for l in re.findall(r'host = \[(.*?)\]',t,re.S): hosts|=set(re.findall(r'"([^"]+)"',l))
hosts={h.replace('*.','sub.') for h in hosts} or {'localhost'}
hosts=sorted(hosts)[:6]
paths={'/','/x','/x/y?q=1','/index.html','/nothing.html','/a%20b','/A//b'}
for w in re.findall(r'(?<![\w:])/[A-Za-z0-9_./*{}-]+',text):
    if '{' in w or '/etc/' in w or '/var/' in w: continue
    b=w.replace('*','')
    for x in (b,b+'x',b.rstrip('/')+'/z',b.upper(),b.rstrip('/'),b+'?a=1&b=2'): 
        if x.startswith('/'): paths.add(x)
for w in re.findall(r'\*(\.[a-z0-9]+)',text): paths|={'/f'+w,'/d/f'+w.upper()}
paths=sorted(paths)[:70]
def ask(port,tls,host,method,path,hdr,body=None):
    seen.clear()
    try:
        raw=socket.create_connection(('127.0.0.1',port),5)
        if tls:
            c=ssl.create_default_context(); c.check_hostname=False; c.verify_mode=ssl.CERT_NONE
            raw=c.wrap_socket(raw,server_hostname=host)
        conn=http.client.HTTPConnection('127.0.0.1'); conn.sock=raw
        conn.putrequest(method,path,skip_host=True,skip_accept_encoding=True)
        conn.putheader('Host',host if port in(80,443) else f'{host}:{port}')
        for k,v in hdr: conn.putheader(k,v)
        if body is not None: conn.putheader('Content-Length',str(len(body)))
        conn.endheaders(body)
        r=conn.getresponse(); b=r.read()
        raw.close()
        return (r.status,sorted((k.lower(),v) for k,v in r.getheaders()),b,list(seen))
    except Exception as e: return ('ERR',type(e).__name__,b'',list(seen))
reqs=[]
for port,tls in listen:
    for h in hosts:
        for p in paths: reqs.append((port,tls,h,'GET',p,[('User-Agent','t')]))
        for p in paths[:12]:
            reqs.append((port,tls,h,'POST',p,[('User-Agent','t')],b'body'))
            reqs.append((port,tls,h,'GET',p,[('User-Agent','t'),('Accept-Encoding','gzip'),('x-long','3000')]))
            reqs.append((port,tls,h,'GET',p,[('X-Forwarded-For','9.9.9.9'),('X-Forwarded-Proto','https'),('Cookie','a=1'),('Origin','https://o.test'),('x-answer','404')]))
            reqs.append((port,tls,h,'HEAD',p,[]))
            reqs.append((port,tls,h,'OPTIONS',p,[]))
            reqs.append((port,tls,h,'GET',p,[('Authorization','Basic '+__import__('base64').b64encode(b'bob:hiccup').decode())]))
reqs=reqs[:1500]
def run(cmd,env=None):
    pr=subprocess.Popen(cmd,stdout=open('/tmp/cmp.out','wb'),stderr=subprocess.STDOUT,env=env)
    for i in range(100):
        if all(not socket.socket().connect_ex(('127.0.0.1',p)) for p,_ in listen): break
        if pr.poll() is not None: print('died',open('/tmp/cmp.out').read()[-1500:]); return None
        time.sleep(.1)
    time.sleep(1)
    out=[ask(*r) for r in reqs]
    pr.terminate(); pr.wait()
    return out
env=dict(os.environ,HOME='/tmp/caddyhome',XDG_DATA_HOME='/tmp/caddyhome')
a=run(['caddy','run','--config',cf,'--adapter','caddyfile'],env)
if a is None: sys.exit(1)
b=run([os.environ.get('WEIR','weir'),'serve',toml])
if b is None: sys.exit(1)
IGN={'server','date','via','alt-svc','connection','content-length','transfer-encoding','weir-reason','etag','last-modified','accept-ranges','keep-alive','x-request-id','vary'}
SIGN={'via','x-request-id','x-forwarded-port','traceparent','tracestate','connection','accept-encoding','user-agent','x-forwarded-host','x-forwarded-proto','x-forwarded-for','content-length','transfer-encoding'}
diffs={}
def note(k,r,x,y): diffs.setdefault(k,[]).append((r,x,y))
for r,x,y in zip(reqs,a,b):
    if x[0]!=y[0]: note(f'status {x[0]} -> {y[0]}',r,x[2][:60],y[2][:60]); continue
    if x[0]=='ERR': continue
    hx={k:v for k,v in x[1] if k not in IGN}; hy={k:v for k,v in y[1] if k not in IGN}
    for k in set(hx)|set(hy):
        if hx.get(k)!=hy.get(k): note('field '+k,r,hx.get(k),hy.get(k))
    if x[0]<400 or x[3]:
        dec=lambda z:(__import__('gzip').decompress(z[2]) if dict(z[1]).get('content-encoding')=='gzip' else z[2])
        try:
            if dec(x)!=dec(y): note('body',r,x[2][:60],y[2][:60])
        except Exception as e: note('body?',r,str(e),'')
    if [s[:3] for s in x[3]]!=[s[:3] for s in y[3]]: note('server got',r,[s[:3] for s in x[3]],[s[:3] for s in y[3]])
    elif x[3]:
        hx={k:v for k,v in x[3][0][3] if k not in SIGN}; hy={k:v for k,v in y[3][0][3] if k not in SIGN}
        for k in set(hx)|set(hy):
            if hx.get(k)!=hy.get(k): note('server field '+k,r,hx.get(k),hy.get(k))
        if x[3][0][4]!=y[3][0][4]: note('server body',r,x[3][0][4],y[3][0][4])
print(len(reqs),'requests,',sum(map(len,diffs.values())),'differences')
for k,v in sorted(diffs.items()):
    print(f'  {k}: {len(v)}')
    for r,x,y in v[:3]: print('     ',r[0],r[2],r[3],r[4],r[5][:3],'|',x,'|',y)
