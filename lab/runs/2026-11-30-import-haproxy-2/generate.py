"""Makes files for HAProxy that an importer may get wrong: generate.py FOLDER COUNT SEED. Half of them are mutated."""
import random, subprocess, sys, os
folder, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.makedirs(folder, exist_ok=True)
with open(f'{folder}/blocked.lst', 'w') as f:
    f.write('/lst/one\n/lst/two\n# no\n/Lst/Three\n')
with open(f'{folder}/long.lst', 'w') as f:
    f.write(''.join(f'/long/{n}\n' for n in range(80)))
with open(f'{folder}/hosts.map', 'w') as f:
    f.write('a.test app\nb.test shop\nspare.test spare\n')
with open(f'{folder}/page.http', 'w') as f:
    f.write('HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nX-Page: own\r\n\r\nkeep out {me}\n')
CONDITIONS = [
    'path /admin', 'path_beg /admin', 'path_beg -i /Admin', 'path_end .php', 'path_end -i .PHP .asp', 'path_sub secret',
    'path_dir private', 'path_reg ^/v[0-9]+/admin', 'path_reg -i \\.(bak|old)$', 'path -m len gt 20', 'path -f blocked.lst',
    'path -i -f blocked.lst', 'path -f long.lst', 'path_beg -f long.lst', 'hdr(host) a.test', 'hdr(host) -i A.test b.test',
    'hdr_dom(host) a.test', 'hdr_beg(host) -i api.', 'hdr_end(host) .test', 'hdr(host) -m reg ^(a|b)\\.test$', 'src 127.0.0.0/8',
    'src 10.0.0.0/8', 'src 127.0.0.1', 'method POST PUT', 'method GET', 'METH_GET', 'METH_POST', 'url_param(token) abc', 'url_param(token) -m found',
    'url_param(id) -m reg ^[0-9]+$', 'cook(session) -m found', 'cook(role) admin', 'hdr(x-role) admin', 'hdr(x-role) -m found', 'hdr(x-role) -m sub adm',
    'hdr_cnt(x-role) gt 0', 'hdr_cnt(x-role) eq 0', 'hdr_cnt(x-role) ge 2', 'hdr_len(x-role) gt 3', 'hdr_val(x-count) gt 5', 'hdr_val(x-count) lt 5', 'req.fhdr(x-role) admin',
    'hdr(user-agent) -m sub curl bot', 'hdr_sub(user-agent) -i BOT', 'ssl_fc', 'dst_port 8080', 'dst_port 8081', 'query -m sub debug', 'url_beg /admin',
    'url_end =1', 'url -m sub ?', 'capture.req.uri -m beg /admin', 'always_true', 'always_false', 'nbsrv(app) lt 1', 'nbsrv(app) gt 0',
    'int(5) gt 3', 'int(5) lt 3', 'str(a) -m str a b', 'path,lower /admin', 'hdr(host),lower b.test', 'hdr(host),field(1,:) a.test', 'path,url_dec /a\\ b',
    'fe_name web', 'fe_name other', 'http_auth(staff)', 'path,map(hosts.map) app', 'hdr(host),map(hosts.map) -m found', 'path,word(1,/) admin', 'path,regsub(^/x,) /admin',
    'req.ver 1.1', 'hdr(content-type) -m beg text/', 'req.body_len gt 3', 'base_beg a.test/admin', 'path_beg /admin/ /intern/', 'var(txn.kind) -m str api', 'hdr_ip(x-forwarded-for) 10.0.0.0/8',
]
ACTIONS = [
    'http-request deny', 'http-request deny', 'http-request deny deny_status 404', 'http-request tarpit', 'http-request reject',
    'http-request return status 200 content-type text/plain string hello', 'http-request return status 418 string tea', 'http-request redirect location /login', 'http-request redirect prefix https://safe.test code 301',
    'http-request redirect scheme https code 307', 'http-request allow', 'http-request auth realm R', 'http-request set-header X-Who staff', 'http-request del-header X-Role', 'http-request set-header X-Role admin',
    'http-request set-path /new%[path]', 'http-request replace-path ^/v1/(.*) /\\1', 'http-request set-var(txn.kind) str(api)', 'http-request add-header X-More %[path]', 'redirect location /old-style', 'redirect prefix /p drop-query',
    'http-request set-header X-Map %[hdr(host),map(hosts.map,none)]', 'http-response set-header X-Out yes', 'http-response del-header Server', 'http-after-response set-header X-After %[status]',
    'http-request deny if { path /twice } or',
]
TARGETS = ['app', 'shop', 'spare', 'guarded']
def condition(r):
    def one():
        kind = r.random()
        text = r.choice(CONDITIONS)
        if kind < 0.3 and acls: return ('!' if r.random() < 0.4 else '') + r.choice(acls)
        return ('!' if r.random() < 0.3 else '') + '{ ' + text + ' }'
    parts = [one() for _ in range(r.choice([1, 1, 1, 2, 2, 3]))]
    joined = parts[0]
    for part in parts[1:]:
        joined += (' or ' if r.random() < 0.3 else ' ') + part
    return r.choice(['if', 'if', 'if', 'unless']) + ' ' + joined
def rules(r, most):
    lines = []
    for _ in range(r.randint(1, most)):
        action = r.choice(ACTIONS)
        if action.startswith(('http-response', 'http-after')): lines.append(action)
        elif action.endswith(' or'): lines.append(action + ' ' + condition(r).split(' ', 1)[1])
        elif 'auth' in action: lines.append(action + ' ' + (condition(r) + ' ' if r.random() < .5 else 'if ') .replace('unless', 'if') + '!{ http_auth(staff) }')
        elif r.random() < 0.06 and 'deny' not in action: lines.append(action)
        else: lines.append(action + ' ' + condition(r))
    return lines
def make(r):
    global acls
    acls = []
    out = ['global', '    log 127.0.0.1:514 local0', 'userlist staff', '    user proof insecure-password proof', 'defaults', '    mode http', '    timeout client 3s', '    timeout server 3s', '    timeout connect 2s', '    timeout tarpit 100ms']
    if r.random() < .4: out += ['    log global', '    option httplog']
    if r.random() < .3: out.append('    errorfile 403 page.http')
    out += ['frontend web', '    bind 127.0.0.1:8080']
    if r.random() < .3: out.append('    bind 127.0.0.1:8081')
    if r.random() < .3: out.append('    option forwardfor' + r.choice(['', ' except 10.0.0.0/8', ' if-none']))
    if r.random() < .2: out.append('    monitor-uri /alive')
    for n in range(r.randint(0, 4)):
        name = r.choice(['a', 'b', 'c'])
        out.append(f'    acl {name} {r.choice(CONDITIONS)}'); acls.append(name)
    out += ['    ' + line for line in rules(r, 6)]
    for _ in range(r.randint(0, 3)): out.append(f'    use_backend {r.choice(TARGETS)} {condition(r)}')
    if r.random() < .15: out.append('    use_backend %[hdr(host),lower,map(hosts.map,app)]')
    if r.random() < .85: out.append('    default_backend ' + r.choice(TARGETS))
    acls = []
    for name, port in [('app', 9001), ('shop', 9002), ('spare', 9003), ('guarded', 9004)]:
        out.append(f'backend {name}')
        if name == 'guarded' or r.random() < .3: out += ['    ' + line for line in rules(r, 3)]
        if r.random() < .15: out.append(f'    use-server {name}2 {condition(r)}')
        out += [f'    server {name}1 127.0.0.1:{port}', f'    server {name}2 127.0.0.1:{port + 10}']
    if r.random() < .2:
        out += ['listen both', '    bind 127.0.0.1:8085'] + ['    ' + line for line in rules(r, 3)] + ['    server l1 127.0.0.1:9005']
    return out
def mutate(r, lines):
    lines = list(lines)
    for _ in range(r.randint(1, 3)):
        at = r.randrange(12, len(lines))
        what = r.randrange(5)
        if what == 0: del lines[at]
        elif what == 1: lines.insert(at, lines[at])
        elif what == 2:
            other = r.randrange(12, len(lines)); lines[at], lines[other] = lines[other], lines[at]
        elif what == 3: lines[at] = lines[at].replace(' if ', ' unless ') if ' if ' in lines[at] else lines[at].replace(' unless ', ' if ')
        else: lines[at] = lines[at].replace('!{', '{') if '!{' in lines[at] else lines[at].replace('{ path', '!{ path')
    return lines
made, number = 0, 0
while made < count:
    number += 1
    r = random.Random(seed * 100000 + number)
    lines = make(r)
    if made % 2: lines = mutate(r, lines)
    name = f'{folder}/h{made:03}.cfg'
    text = '\n'.join(lines) + '\n'
    for file in ['blocked.lst', 'long.lst', 'hosts.map', 'page.http']: text = text.replace(file, os.path.abspath(folder) + '/' + file)
    with open(name, 'w') as f: f.write(text)
    check = subprocess.run(['haproxy', '-c', '-f', os.path.basename(name)], cwd=folder, capture_output=True, text=True)
    if check.returncode == 0: made += 1
print(number)
