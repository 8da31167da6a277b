#!/usr/bin/env python3
"""pairs.py FOLDER COUNT SEED: configs that combine kinds of locations, rewrites, error pages, passes and inheritance."""
import random, subprocess, sys, os
folder, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.makedirs(folder, exist_ok=True)
draw = random.Random(seed)

KINDS = ["= /{n}", "/{n}", "/{n}/", "^~ /{n}/", "~ ^/{n}/", "~* ^/{N}/(.*)$", "~ ^/{n}/(?<id>[a-z]+)", "~ /{n}\\.(php|txt)$"]
REWRITES = [
    "", "", "rewrite ^/{n}/(.*)$ /t/$1 last;", "rewrite ^/{n}/(.*)$ /t/$1 break;", "rewrite ^/{n}/(.*)$ /t/$1 permanent;",
    "rewrite ^/{n}/x$ /t/x?a=1 last;", "rewrite ^/{n}/(.*)$ /t/$1;", "rewrite ^ /t/all? break;",
    "if ($request_method = POST) {{ rewrite ^ /t/post last; }}", "if ($arg_q) {{ return 403; }}", "if ($http_x_a) {{ set $v a; }} set $w $uri;",
    "if ($uri ~ ^/{n}/(.+)) {{ set $v $1; }}", "if ($request_uri ~* old) {{ return 301 /t/; }}", "set $v $args; rewrite ^/{n}/(.*)$ /t/$1?z=1 break;",
]
PAGES = [
    "", "", "error_page 404 /p.html;", "error_page 404 = @n;", "error_page 502 503 504 /p.html;", "error_page 404 =200 /p.html;",
    "error_page 403 404 /t/p;", "error_page 502 = @n;", "error_page 404 http://b.test/x;", "error_page 401 403 =404 /p.html;",
]
PASSES = [
    "proxy_pass http://10.1.{k}.1:8080;", "proxy_pass http://10.1.{k}.1:8080/;", "proxy_pass http://10.1.{k}.1:8080/u/;", "proxy_pass http://10.1.{k}.1:8080/u;",
    "proxy_pass http://up;", "proxy_pass http://up/;", "proxy_pass http://up/v$uri;", "proxy_pass http://up$request_uri;",
    "root /srv/f{k};", "alias /srv/g{k}/;", "root /srv/f{k}; try_files $uri @n;", "root /srv/f{k}; try_files $uri $uri/ /p.html;", "root /srv/f{k}; try_files $uri =404;",
    "return 200 \"{n} $uri $args $v\\n\";", "return 404;", "deny all;", "return 204;",
]
FIELDS = ["", "", "add_header X-L {n};", "add_header X-L {n} always;", "proxy_set_header X-L $uri;", "proxy_set_header X-V $v;", "expires 1h;", "proxy_intercept_errors on;", "internal;"]
SERVER = ["", "add_header X-S s;", "add_header X-S s always;", "proxy_set_header X-S s;", "error_page 404 /p.html;", "error_page 502 503 @n;", "proxy_intercept_errors on;", "root /srv/s;", "index i.html index.html;", "rewrite ^/old/(.*)$ /t/$1 last;", "rewrite ^/gone$ /t/ permanent;", "client_max_body_size 2k;", "expires 5m;", "if ($http_x_b = no) { return 403; }"]

def location(n, k):
    kind = draw.choice(KINDS)
    passes = draw.choice(PASSES)
    uri = passes.startswith("proxy_pass") and passes.count("/") > 2
    if "~" in kind[:3] and uri and "$" not in passes: passes = "proxy_pass http://up;"
    if "alias" in passes and ("~" in kind[:3] or "=" in kind[:1]): passes = "root /srv/f{k};"
    body = " ".join(x for x in [draw.choice(FIELDS), draw.choice(REWRITES), draw.choice(PAGES), draw.choice(FIELDS), passes] if x)
    inner = ""
    if kind in ("/{n}/",) and draw.random() < .3:
        inner = f" location /{n}/in {{ {draw.choice(FIELDS)} proxy_pass http://10.1.9.1:8080{draw.choice(['', '/w'])}; }}"
    text = kind.replace("{n}", n).replace("{N}", n.upper())
    return f"    location {text} {{ {body.replace('{n}', n).replace('{k}', str(k)).replace('{{', '{').replace('}}', '}')}{inner} }}".replace("{n}", n)

def config():
    lines = ["events { }", "http {", "  upstream up { server 10.1.8.1:8080; }", "  server {", "    listen 8080;", "    server_name a.test;", "    set $v '';"]
    lines += ["    " + draw.choice(SERVER) for _ in range(draw.randint(0, 3))]
    lines += [location(chr(ord("a") + i), i + 1) for i in range(draw.randint(2, 5))]
    lines += ["    location /t/ { " + draw.choice(["proxy_pass http://10.1.7.1:8080;", "return 200 \"t $uri $args $v\\n\";", "root /srv/t;"]) + " }",
              "    location = /p.html { " + draw.choice(["root /srv/p;", "return 200 \"page\\n\";", "internal; root /srv/p;"]) + " }",
              "    location @n { " + draw.choice(["proxy_pass http://10.1.6.1:8080;", "return 200 \"named $uri\\n\";", "add_header X-N n; proxy_pass http://up;"]) + " }", "  }", "}"]
    return "\n".join(dict.fromkeys(lines) if False else lines) + "\n"

made = tried = 0
while made < count and tried < count * 30:
    tried += 1
    text = config()
    path = f"{folder}/p{made + 1:03}.conf"
    open(path, "w").write(text)
    test = subprocess.run(["nginx", "-t", "-c", os.path.abspath(path), "-g", "pid /tmp/pairs.pid; error_log /dev/null;"], capture_output=True, text=True)
    if "successful" in test.stderr: made += 1
    else:
        if os.environ.get("WHY"): print([l for l in test.stderr.split("\n") if "emerg" in l][:1])
        os.remove(path)
print(made, "of", tried)
