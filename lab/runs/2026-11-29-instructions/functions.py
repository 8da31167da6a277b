import re,sys,collections,glob
def load(prefix,n):
    best=None
    for f in glob.glob(prefix+'-*'):
        fn=None; fnn={}; skip=False; c=collections.Counter(); tot=0
        for l in open(f):
            l=l.rstrip('\n')
            m=re.match(r'(fn|cfn)=\((\d+)\)(?: (.*))?$',l)
            if m:
                if m[3]: fnn[m[2]]=m[3]
                if m[1]=='fn': fn=m[2]
                continue
            if l.startswith('calls='): skip=True; continue
            m=re.match(r'([+*-]?\d*|\*) (\d+)$',l)
            if m:
                if skip: skip=False; continue
                c[re.sub(r"'\d+$",'',fnn.get(fn,'?'))]+=int(m[2]); tot+=int(m[2])
        if 'carry' in ' '.join(fnn.values()) and any('exchange::carry' in k for k in c) and (best is None or tot>best[0]): best=(tot,c)
    return {k:v/n for k,v in best[1].items()}
a=load(sys.argv[1],float(sys.argv[3])); b=load(sys.argv[2],float(sys.argv[3])) if sys.argv[2]!='-' else {}
ks=sorted(set(a)|set(b),key=lambda k:-max(a.get(k,0),b.get(k,0)))
for k in ks[:90]:
    print(f"{a.get(k,0):8.0f} {b.get(k,0):8.0f} {b.get(k,0)-a.get(k,0):+7.0f} {k[:110]}")
