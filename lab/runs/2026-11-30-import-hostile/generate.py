#!/usr/bin/env python3
"""Writes nginx files by combination and mutation: generate.py FOLDER [COUNT] [SEED].

The first half combines features, each a function below that returns lines of `http` and of a server; the second half
changes one to three statements of such a file: removed, doubled, moved, moved a level up or down, a sign changed. What
`nginx -t` refuses is drawn again."""
import os, random, re, subprocess, sys, tempfile

R = random.Random()

def pick(*options): return R.choice(options)
def some(options, least=1, most=None):
    most = most or len(options)
    return R.sample(options, R.randint(least, min(most, len(options))))

class File:
    def __init__(self):
        self.http, self.server, self.servers, self.main, self.ups = [], [], [], [], {}
        self.n = 0
    def up(self, extra=""):
        """An upstream of its own."""
        self.n += 1
        name = f"up{self.n}"
        self.http.append(f"upstream {name} {{ server 10.1.{self.n}.1:8080{extra}; }}")
        return name
    def mark(self):
        """A body that tells where a request came to."""
        self.n += 1
        return f"m{self.n}"
    def answer(self):
        kind = R.randint(0, 3)
        if kind == 0: return f"return 200 \"{self.mark()} $uri\\n\";"
        if kind == 1: return f"proxy_pass http://{self.up()};"
        if kind == 2: return f"root /srv/{self.mark()};"
        return f"return {pick(403, 404, 410, 503)};"

# ---------------------------------------------------------------- features

def names(f):
    pool = ["a.test", "www.a.test", "A.Other.Test", ".b.test", "*.c.test", "*.sub.c.test", "www.*", "www.c.*",
            "~^(?<sub>[a-z]+)\\.d\\.test$", "~^www\\.", "~\\.d\\.test$", "~^(www\\.)?(.+)$", "\"\"", "_", "127.0.0.1",
            "mail.a.test", "x.sub.c.test", "*.test", "~^api(\\d+)\\.", "a.test."]
    R.shuffle(pool)
    count = R.randint(2, 5)
    default = R.randint(-1, count - 1)
    for index in range(count):
        own = [pool.pop() for _ in range(R.randint(1, 3))]
        flag = " default_server" if index == default else ""
        lines = [f"listen 8080{flag};", f"server_name {' '.join(own)};"]
        kind = R.randint(0, 4)
        if kind == 0: lines.append(f"return 200 \"s{index} $host $server_name\\n\";")
        elif kind == 1: lines.append(f"add_header X-Server s{index};"); lines.append(f"location / {{ proxy_pass http://{f.up()}; }}")
        elif kind == 2: lines.append(f"location /x {{ return 200 \"s{index}x\\n\"; }}")
        elif kind == 3: lines.append(f"root /srv/s{index};")
        else:
            lines.append(f"location / {{ return 301 https://$host$request_uri; }}")
            lines.append(f"location ~ \\.php$ {{ return 403; }}")
        if any("(?<sub>" in one for one in own):
            lines = [l for l in lines if not l.startswith("return")]
            lines.append("add_header X-Sub $sub always;")
            if not any(l.startswith("location / ") or l.startswith("root") for l in lines):
                lines.append(f"location / {{ return 200 \"s{index}\\n\"; }}")
        f.servers.append(lines)

def locations(f):
    pool = ["/", "= /", "/a", "/a/", "= /a", "= /a/", "^~ /a/b", "~ ^/a/b", "~* \\.PHP$", "~ \\.(png|jpg)$", "/a/b/c/",
            "^~ /img/", "~ ^/a/(.+)\\.png$", "~* ^/A/", "/a/b.png", "^~ /a/b/c/", "~ /b/", "/img/x/", "= /index.html",
            "~ ^/(a|img)/x", "/a/x", "~ ^/a(/|$)", "^~ /a", "/%61x", "/with space/".replace(" ", "-"), "~ ^/\\w+$"]
    used = some(pool, 3, 8)
    def one(sign, depth):
        lines = [f"location {sign} {{"]
        if depth < 2 and not sign.startswith("= ") and R.random() < 0.35:
            base = sign.split()[-1]
            if sign.startswith("~"):
                inner = some(["~ \\.png$", "~ /x", "~ c"], 1, 2)
            else:
                bare = base.rstrip("/")
                inner = some([f"{bare}/x/", f"= {bare}/y", "~ \\.php$", f"^~ {bare}/z/", "~* \\.(png|css)$", f"{bare}/b/"], 1, 3)
            for sub in inner: lines += ["  " + l for l in one(sub, depth + 1)]
        lines.append("  " + f.answer())
        if R.random() < 0.15: lines.insert(1, "  internal;")
        lines.append("}")
        return lines
    for sign in used: f.server += one(sign, 0)

def passes(f):
    for index in range(R.randint(2, 5)):
        p = f"/p{index}"
        place = pick(p, p + "/", f"= {p}", f"^~ {p}/", f"~ ^{p}/", f"~* ^{p}(/.*)$")
        up = f.up()
        if place.startswith("~"):
            target = pick(f"http://{up}", f"http://{up}$request_uri", f"http://{up}$uri$is_args$args", f"http://{up}/fixed$is_args$args",
                          f"http://{up}/new$1" if "(" in place else f"http://{up}")
        else:
            target = pick(f"http://{up}", f"http://{up}/", f"http://{up}/b", f"http://{up}/b/", f"http://{up}/b?x=1",
                          f"http://{up}$request_uri", f"http://{up}/v$uri", f"http://{up}/%62/", f"http://{up}/b/$http_x_part")
        lines = [f"location {place} {{"]
        if R.random() < 0.3: lines.append("  " + pick(f"rewrite ^{p}/(.*)$ /r/$1 break;", f"rewrite ^{p}(.*)$ /r$1?;", f"rewrite ^ /all break;", f"rewrite ^{p}/old/(.*)$ {p}/new/$1 last;"))
        if R.random() < 0.4: lines.append("  " + pick("proxy_set_header Host $host;", "proxy_set_header Host $http_host;", "proxy_set_header Host backend.example;", "proxy_set_header Host $proxy_host;"))
        if R.random() < 0.3: lines.append("  " + pick("proxy_http_version 1.1;", "proxy_redirect off;", "proxy_redirect default;", f"proxy_redirect http://{up}/ /q/;", "proxy_redirect ~^http://[^/]+(/.*)$ $1;", "proxy_redirect / /base/;", "proxy_redirect http:// https://;"))
        lines += [f"  proxy_pass {target};", "}"]
        f.server += lines

def rewrites(f):
    pool = ["rewrite ^/old/(.*)$ /new/$1 permanent;", "rewrite ^/o2/(.*)$ /new/$1? redirect;", "rewrite ^/o3/(.*)/(.*)$ /new/$2/$1?a=$1 last;",
            "rewrite ^/o4$ https://other.example/x permanent;", "rewrite ^/o5/(.+)$ /new/?page=$1 last;", "rewrite ^(/o6/.*)\\.html$ $1 permanent;",
            "rewrite ^/o7 /new/seven;", "rewrite ^/new/(seven)$ /new/eight-$1;", "rewrite ^/o8/?$ /new/ redirect;", "rewrite (?i)^/O9/(.*) /new/$1 last;",
            "rewrite ^/o10/(?<name>[a-z]+)$ /new/$name last;", "rewrite ^/o11/(.*)$ $scheme://$host/new/$1 permanent;",
            "rewrite ^/o12/(.*)$ /new/$1?$args&b=2? last;", "rewrite \"^/o13/([0-9]{2,4})$\" /new/n$1 last;"]
    f.server += some(pool, 2, 6)
    f.server += ["location /new/ { " + pick(f"proxy_pass http://{f.up()};", "return 200 \"new $uri $args\\n\";", "root /srv/new;") + " }"]
    p = pick("/in", "/in/")
    inner = some([f"rewrite ^/in/a/(.*)$ /new/$1 last;", f"rewrite ^/in/b/(.*)$ /in/c/$1 break;", f"rewrite ^/in/d(.*)$ /in/e$1;",
                  "rewrite ^ /new/any? last;", "break;", "rewrite ^/in/f/ /x permanent;"], 1, 3)
    f.server += [f"location {p} {{", *["  " + l for l in inner], f"  proxy_pass http://{f.up()};", "}"]

def ifs(f):
    conditions = ["($request_method = POST)", "($request_method !~ ^(GET|HEAD|POST)$)", "($request_method ~ ^(PUT|DELETE)$)", "($http_x_key != secret)", "($http_x_key = \"\")",
                  "($http_user_agent ~* \"(bot|crawl)\")", "($arg_debug)", "($arg_mode = fast)", "($cookie_session)", "($cookie_lang ~ ^(de|fr)$)",
                  "($host = www.a.test)", "($host ~* ^www\\.(.*)$)", "($args ~ token=([a-z]+))", "($query_string)", "($http_referer !~* \"example\\.com\")",
                  "($scheme = http)", "($remote_addr = 127.0.0.9)", "($uri ~ ^/if/x)", "($request_uri ~ \"//\")", "($http_cookie ~* \"id=([^;]+)\")", "($is_args)",
                  "($remote_addr ~ ^127\\.)", "($server_port = 8080)", "($content_type ~ json)", "($http_x_empty)"]
    actions = ["return 403;", "return 405;", "return 301 https://a.test$request_uri;", "rewrite ^ /other last;", "set $flag 1;", "return 200 \"if\\n\";", "add_header X-If yes;", "set $flag \"$flag-b\";",
               "return 444;", "rewrite ^/if/(.*)$ /ifs/$1 break;", "proxy_pass http://10.9.9.9:80;", "expires 1h;"]
    f.server += ["location /if {", "  set $flag \"\";"]
    for _ in range(R.randint(1, 3)):
        f.server.append(f"  if {pick(*conditions)} {{ {pick(*actions)} }}")
    if R.random() < 0.4: f.server.append("  if ($flag) { " + pick("return 418;", "return 200 \"flag $flag\\n\";") + " }")
    if R.random() < 0.4: f.server.append("  add_header X-Flag \"f$flag\";")
    f.server += [f"  proxy_set_header X-Flag $flag;" if R.random() < 0.5 else "  # nothing", f"  proxy_pass http://{f.up()};", "}"]
    if R.random() < 0.5:
        f.server.insert(0, f"if {pick(*conditions)} {{ {pick('return 403;', 'return 301 https://a.test$request_uri;', 'rewrite ^ /other last;', 'set $sf 1;')} }}")
    f.server.append("location /other { return 200 \"other $uri $args\\n\"; }")

def returns(f):
    pool = ["return 200;", "return 204;", "return 200 ok;", "return 200 \"$remote_addr $request_uri\\n\";", "return 301 /x;", "return 302 https://o.example$request_uri;",
            "return 307 $scheme://$host/y;", "return https://o.example/;", "return 404 \"not here\\n\";", "return 403 '{\"error\":\"no\"}';", "return 308 /r$uri;", "return 303 /see?from=$uri;",
            "return 301 https://$server_name$request_uri;", "return 302 /l?u=$request_uri;", "return 200 \"$http_host|$host|$server_port|$args|$is_args|$scheme\";", "return 500;", "return 400 bad;", "return 429;",
            "return 301 $scheme://$http_host/z;", "return 200 '$arg_A $arg_b $cookie_C';"]
    for index, one in enumerate(some(pool, 2, 6)):
        extra = pick("", "default_type application/json; ", "default_type text/html; ", "add_header X-R 1; ", "add_header X-R 1 always; ", "add_header Content-Type text/plain; ", "types { } default_type text/x; ", "expires 5m; ")
        f.server.append(f"location {pick('', '= ', '^~ ')}/ret{index} {{ {extra}{one} }}")

def tries(f):
    f.server.append("root /srv/t;")
    if R.random() < 0.5: f.server.append(f"index {pick('index.html', 'index.html index.htm', 'home.html', 'index.php index.html')};")
    forms = ["try_files $uri =404;", "try_files $uri $uri/ =404;", "try_files $uri $uri/ /index.html;", "try_files $uri @back;", "try_files $uri $uri.html $uri/ @back;", "try_files $uri /index.php?$args;",
             "try_files /maintenance.html $uri @back;", "try_files $uri $uri/ /tf/index.html?q=$uri&$args;", "try_files $uri =403;", "try_files $uri/index.html $uri =404;", "try_files /x$uri $uri =404;", "try_files $uri /tf/fallback.html =503;"]
    for index in range(R.randint(1, 3)):
        p = ["/tf/", "/tf2", "= /tf3", "~ ^/tf4/(.*)$"][index] if R.random() < 0.8 else f"/tf5{index}/"
        extra = pick("", "", "alias /srv/al/; " if p.endswith("/") and not p.startswith("~") else "", "root /srv/o; ", "add_header X-T t; ", "expires 1d; ")
        form = pick(*forms)
        if "~" in p: form = pick(form, "try_files /$1 =404;")
        f.server.append(f"location {p} {{ {extra}{form} }}")
    f.server.append(f"location @back {{ proxy_pass http://{f.up()}; {pick('', 'add_header X-Back b;')} }}")
    if R.random() < 0.5: f.server.append("location ~ \\.php$ { return 200 \"php $uri $args\\n\"; }")

def errors(f):
    up = f.up()
    forms = ["error_page 404 /404.html;", "error_page 500 502 503 504 /50x.html;", "error_page 404 = @ep;", "error_page 403 =404 /404.html;", "error_page 404 =200 /empty.gif;", "error_page 404 @ep;", "error_page 401 /login.html;",
             "error_page 404 https://o.example/missing;", "error_page 404 =301 /moved;", "error_page 503 =503 @ep;", "error_page 403 = /denied;", "error_page 405 =200 $uri;", "error_page 404 /nf?u=$uri;", "error_page 410 413 /x.html;"]
    f.server += some(forms, 1, 3)
    f.server.append("location = /404.html { " + pick("root /srv/ep; internal;", "return 200 \"the 404 page\\n\";", "root /srv/ep;", "internal;") + " }")
    if R.random() < 0.7: f.server.append("location = /50x.html { root /usr/share/nginx/html; }")
    f.server.append(f"location @ep {{ {pick('return 200 named;', f'proxy_pass http://{f.up()};', 'return 302 /home;', 'root /srv/ep; try_files /404.html =404;')} }}")
    f.server.append("location /denied { return 200 \"denied\\n\"; }")
    f.server += ["location /ep/ {", "  " + pick("", "", "error_page 404 /own.html;", "error_page 502 =200 /ok;", "add_header X-E e;", "add_header X-E e always;"),
                 "  " + pick("proxy_intercept_errors on;", "proxy_intercept_errors off;", ""), f"  proxy_pass http://{up};", "}"]
    f.server.append("location /epf/ { root /srv/ep; " + pick("", "deny all;", "error_page 404 = @ep;", "error_page 404 =204 /n;", "return 503;") + " }")

def headers(f):
    values = ["add_header X-A a;", "add_header X-A a always;", "add_header X-B \"b $host\";", "add_header Cache-Control \"no-store\";", "add_header Cache-Control public always;", "add_header X-Frame-Options DENY;", "add_header Set-Cookie \"k=v; Path=/\";",
              "add_header Vary X-Test;", "add_header X-Up $upstream_http_x_powered_by;", "add_header Last-Modified \"\";", "add_header ETag \"\";", "add_header X-U $uri;", "add_header X-Req $request_id;", "add_header X-C $sent_http_content_type;", "add_header X-S $status;",
              "add_header Content-Security-Policy \"default-src 'self'; img-src *\";", "add_header Access-Control-Allow-Origin $http_origin;", "add_header Link \"</a>; rel=x\";", "add_header X-M \"$request_method $server_protocol\";", "add_header X-E \"\";", "add_header X-T \"a{b}c\";"]
    f.server += some(values, 0 + 1, 3)
    f.server += ["location /h/ {", *["  " + l for l in some(values, 1, 3)], f"  proxy_pass http://{f.up()};", "}"]
    f.server += ["location /h2/ {", "  root /srv/h;", "  location /h2/in/ {", *["    " + l for l in some(values, 1, 2)], "  }", "}"]
    f.server += ["location /h3 {", f"  {pick('', 'add_header X-Loc l;')}", "  return " + pick("404;", "200 h3;", "301 /h/;", "204;", "500 err;"), "}"]
    f.server += ["location /h4/ { root /srv/h; " + pick("expires 1h;", "expires -1;", "expires max;", "expires epoch;", "expires off;", "etag off;", "if_modified_since before;", "expires modified +1h;", "expires 0;") + " }"]

def upheaders(f):
    values = ["proxy_set_header X-Real-IP $remote_addr;", "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;", "proxy_set_header X-Forwarded-For $remote_addr;", "proxy_set_header X-Forwarded-Proto $scheme;", "proxy_set_header X-Forwarded-Host $host;",
              "proxy_set_header X-Forwarded-Port $server_port;", "proxy_set_header Host $host;", "proxy_set_header Host $http_host;", "proxy_set_header Connection \"\";", "proxy_set_header Accept-Encoding \"\";", "proxy_set_header X-Custom \"v $uri $args\";", "proxy_set_header X-Q $arg_q;",
              "proxy_set_header Cookie \"\";", "proxy_set_header Authorization $http_authorization;", "proxy_set_header X-Orig $request_uri;", "proxy_set_header X-Scheme $scheme;", "proxy_set_header User-Agent proof/1;", "proxy_set_header X-Forwarded-Proto https;", "proxy_set_header X-Method $request_method;",
              "proxy_set_header Host fixed.example;", "proxy_set_header X-Cookie $cookie_id;", "proxy_set_header Referer $http_referer;", "proxy_set_header X-Forwarded-Server $host;", "proxy_set_header X-Len $content_length;", "proxy_set_header X-Type $content_type;", "proxy_set_header X-Name $server_name;",
              "proxy_set_header Forwarded \"for=$remote_addr;proto=$scheme\";", "proxy_set_header X-Double one;", "proxy_set_header X-Double two;", "proxy_set_header Origin \"\";", "proxy_set_header Range \"\";"]
    f.http += some(values, 0 + 1, 3)
    if R.random() < 0.7: f.server += some(values, 1, 4)
    f.server += ["location /uh/ {", *["  " + l for l in some(values, 1, 5)], f"  proxy_pass http://{f.up()};", "}"]
    f.server += ["location /uh2 {", f"  proxy_pass http://{f.up()};", "  location /uh2/in {", "    " + pick("proxy_set_header X-In in;", "add_header X-In in;", "proxy_http_version 1.1;"), f"    proxy_pass http://{f.up()}/z;", "  }", "}"]

def downheaders(f):
    values = ["proxy_hide_header X-Powered-By;", "proxy_hide_header Cache-Control;", "proxy_pass_header Server;", "proxy_hide_header X-Frame-Options;", "proxy_cookie_path / /app/;", "proxy_cookie_domain backend.example front.example;", "proxy_cookie_path /app /;", "proxy_cookie_flags session secure samesite=strict;",
              "proxy_cookie_flags ~ httponly;", "proxy_redirect off;", "proxy_redirect default;", "proxy_redirect http://10.1.1.1:8080/ /pre/;", "proxy_redirect ~^http://([^/:]+)(:\\d+)?(/.*)$ http://front.example$3;", "proxy_redirect /elsewhere /there;", "proxy_ignore_headers X-Accel-Buffering Cache-Control;", "proxy_hide_header Set-Cookie;",
              "proxy_cookie_domain ~\\.?backend\\.example$ x.example;", "proxy_cookie_path ~^/app(.*)$ /b$1;", "proxy_hide_header Strict-Transport-Security;", "proxy_intercept_errors on;", "proxy_buffering off;", "proxy_cookie_domain off;", "add_header X-Frame-Options SAMEORIGIN;", "proxy_hide_header Location;", "expires 10m;", "expires off;", "charset utf-8;"]
    if R.random() < 0.5: f.server += some(values, 1, 2)
    f.server += ["location /dh/ {", *["  " + l for l in some(values, 1, 4)], "  " + pick("proxy_set_header Host $host;", ""), f"  proxy_pass http://10.1.1.1:8080{pick('', '/', '/x/')};", "}"]

def files(f):
    f.server.append(f"root {pick('/srv/f', '/srv/f/')};")
    pool = ["location /f1/ { alias /srv/al/; }", "location /f2 { alias /srv/al; }", "location /f3/ { root /srv/o; index a.html index.html; }", "location ~ ^/f4/(.+)$ { alias /srv/al/$1; }", "location ~ ^/f5/([^/]+)/(.*)$ { alias /srv/al/$2; }", "location = /f6 { alias /srv/al/index.html; }",
            "location /f7/ { internal; }", "location /f8/ { autoindex on; }", "location ~* \\.(css|js|png)$ { expires 30d; add_header Cache-Control public; }", "location ~ /\\.(?!well-known) { deny all; }", "location ~ /\\. { deny all; }", "location = /favicon.ico { log_not_found off; access_log off; }", "location /f9/ { types { text/plain html; } }",
            "location /f10/ { types { } default_type application/octet-stream; }", "location /f11/ { default_type text/html; }", "location /f12/ { charset utf-8; }", "location /f13/ { disable_symlinks on; }", "location /f14/ { add_header Content-Disposition attachment; }", "location /f15/ { limit_except GET { deny all; } }", "location /f16/ { max_ranges 0; }",
            "location /f17/ { index /index.html; }", "location /f18/ { sub_filter proof PROOF; sub_filter_types *; }", "location /f19/ { etag off; }", "location /f20/ { if_modified_since off; }", "location /f21/ { root /srv/$host; }", "location /f22/ { open_file_cache max=10; }", "location /f23/ { types { text/css html; text/x-own txt; } default_type text/plain; }",
            "location /f24/ { charset utf-8; charset_types text/css; }", "location /f25/ { rewrite ^/f25/(.*)$ /f3/$1 break; }", "location ~ ^/f26/.+\\.(?<ext>html|css)$ { add_header X-Ext $ext; }"]
    f.server += some(pool, 2, 6)
    if R.random() < 0.3: f.http.append("include /etc/nginx/mime.types;")
    if R.random() < 0.3: f.http.append("default_type application/octet-stream;")
    if R.random() < 0.3: f.http.append("charset utf-8;")

def access(f):
    rules = ["allow 127.0.0.1;", "deny 127.0.0.1;", "allow 10.0.0.0/8;", "deny 10.1.0.0/16;", "deny all;", "allow all;", "allow 127.0.0.0/8;", "deny 127.0.0.9;", "allow 192.168.1.0/24;", "allow ::1;", "deny 127.0.0.8/29;", "allow 127.0.0.10;", "deny 10.0.0.0/8;", "allow 10.1.2.3;"]
    for index in range(R.randint(1, 4)):
        own = some(rules, 1, 4)
        extra = pick("", "", "satisfy any; auth_basic \"in\"; auth_basic_user_file /etc/nginx/users;", "satisfy all; auth_basic \"in\"; auth_basic_user_file /etc/nginx/users;", "error_page 403 /no.html;", "satisfy any;", "auth_basic off;")
        what = pick(f"proxy_pass http://{f.up()};", "root /srv/acc;", "return 200 open;", "try_files $uri @acc;")
        f.server.append(f"location /acc{index}/ {{ {extra} {' '.join(own)} {what} }}")
    f.server.append(f"location @acc {{ {pick('', 'deny all;', 'allow 127.0.0.1; deny all;')} proxy_pass http://{f.up()}; }}")
    if R.random() < 0.4: f.server += some(rules, 1, 2)
    if R.random() < 0.3:
        f.server += ["auth_basic \"all\";", "auth_basic_user_file /etc/nginx/users;"]
        f.server.append(f"location /free/ {{ auth_basic off; proxy_pass http://{f.up()}; }}")
    if R.random() < 0.4: f.server.append(f"location /m/ {{ limit_except {pick('GET', 'GET POST', 'POST')} {{ {pick('deny all;', 'allow 127.0.0.9; deny all;', 'auth_basic x; auth_basic_user_file /etc/nginx/users;')} }} proxy_pass http://{f.up()}; }}")

def authrequest(f):
    up = f.up()
    f.server += ["location /ar/ {", "  auth_request /auth;", *some(["  auth_request_set $user $upstream_http_x_user;", "  auth_request_set $st $upstream_status;", "  error_page 401 = @login;"], 0 + 1, 2), pick("  proxy_set_header X-User $user;", "  add_header X-User $user;", ""), f"  proxy_pass http://{f.up()};", "}"]
    if not any("$user $up" in l for l in f.server): f.server = [l for l in f.server if "$user;" not in l]
    f.server += ["location = /auth {", "  internal;", f"  proxy_pass http://{up}{pick('', '/check', '/check?u=$request_uri')};", "  proxy_pass_request_body off;", "  proxy_set_header Content-Length \"\";", pick("  proxy_set_header X-Original-URI $request_uri;", ""), "}", "location @login { return 302 https://login.example/?r=$request_uri; }"]

def maps(f):
    f.http += some([
        "map $http_x_key $m1 { default none; a one; B two; \"\" empty; ~^re(.*)$ \"re-$1\"; ~*CASE case; }",
        "map $host $m2 { hostnames; default d; a.test A; *.b.test B; .c.test C; www.* W; }",
        "map $uri $m3 { default 0; /map/x 1; ~^/map/y(?<rest>.*)$ $rest; ~\\.php$ php; }",
        "map $request_method $m4 { default 0; POST 1; ~^P 2; }",
        "map $arg_v $m5 { volatile; 1 up1; 2 up2; default \"\"; }",
        "map \"$scheme:$http_x_key\" $m6 { http:a yes; default no; }",
        "map $http_user_agent $m7 { default \"\"; ~*bot bot; ~Mozilla moz; \"curl\" c; }",
        "map $cookie_tier $m8 { gold 1; ~^sil 2; default 3; }",
    ], 8, 8)
    f.http += ["geo $g1 { default out; 127.0.0.0/8 loop; 127.0.0.9 nine; 10.0.0.0/8 ten; }", "geo $http_x_ip $g2 { default none; 1.2.3.0/24 net; 1.2.3.4 host; }"]
    vars = ["$m1", "$m2", "$m3", "$m4", "$m6", "$m7", "$m8", "$g1", "$g2"]
    shown = some(vars, 2, 5)
    f.server += ["location /map/ {", f"  add_header X-Map \"{' '.join(shown)}\" always;", "  " + pick("", "set $s \"$m1-$arg_q\"; ", "set $s $m1; set $s \"${s}_x\"; "), "  " + pick(f"if ({pick(*vars)}) {{ return 403; }}", "", f"if ({pick(*vars)} = {pick('1', 'one', 'loop', 'none')}) {{ return 200 \"eq\\n\"; }}"),
                 f"  proxy_set_header X-Map2 \"{pick(*vars)}{pick('', '-x')}\";", "  proxy_set_header X-S $s;", f"  proxy_pass http://{f.up()};", "}"]
    if not any("set $s" in l for l in f.server): f.server = [l for l in f.server if "X-S $s" not in l]
    f.server += [f"location /map2 {{ return {pick('200', '404')} \"{' '.join(some(vars, 1, 4))}\\n\"; }}", "location /map3 { set $args \"z=1&$args\"; " + f"proxy_pass http://{f.up()}; }}" if R.random() < 0.4 else f"location /map3 {{ return 302 /map/$m1; }}"]

def limits(f):
    f.http += ["limit_req_zone $binary_remote_addr zone=r1:1m rate=600r/s;", "limit_req_zone $http_x_key zone=r2:1m rate=1r/m;", "limit_conn_zone $server_name zone=c1:1m;"]
    for index in range(R.randint(1, 3)):
        one = some(["limit_req zone=r1 burst=1000 nodelay;", "limit_req zone=r2;", "limit_req zone=r2 burst=2 nodelay;", "limit_conn c1 100;", "limit_req_status 429;", "limit_rate 10m;", "limit_rate_after 1m;", "limit_conn_status 429;", "limit_req_dry_run on;", "client_max_body_size 2m;", "client_max_body_size 0;", "client_max_body_size 500;", "client_max_body_size 1k;"], 1, 3)
        if len([l for l in one if "client_max" in l]) > 1: one = one[:1]
        f.server.append(f"location /lim{index} {{ {' '.join(one)} {pick(f'proxy_pass http://{f.up()};', 'root /srv/lim;', 'return 200 l;')} }}")
    if R.random() < 0.5: f.server.append(f"client_max_body_size {pick('0', '1k', '20m', '999', '1M')};")

def bodies(f):
    f.http += some(["gzip on;", "gzip_types text/plain application/json;", "gzip_types *;", "gzip_min_length 100;", "gzip_comp_level 6;", "gzip_vary on;", "gzip_proxied any;", "gzip_disable msie6;"], 2, 5)
    f.server += ["location /sf/ {", *["  " + l for l in some(["sub_filter answer ANSWER;", "sub_filter '</head>' '<x></head>';", "sub_filter proof $host;", "sub_filter_once off;", "sub_filter_types text/plain application/json;", "sub_filter_last_modified on;", "gzip off;", "gunzip on;", "charset utf-8;"], 1, 4)], f"  {pick(f'proxy_pass http://{f.up()};', 'root /srv/sf;')}", "}"]
    if not any("gzip on" in l for l in f.http): f.http.append("gzip on;")

def caches(f):
    f.http.append("proxy_cache_path /var/cache/nginx/c1 keys_zone=c1:1m max_size=10m inactive=5m levels=1:2;".replace("c1", f"c{f.n}c"))
    zone = f"c{f.n}c"
    lines = some(["proxy_cache_valid 200 302 10m;", "proxy_cache_valid 404 1m;", "proxy_cache_valid any 1m;", "proxy_cache_valid 5m;", "proxy_cache_key $host$uri$is_args$args;", "proxy_cache_key $uri;", "proxy_cache_key \"$scheme$request_method$host$request_uri\";", "proxy_cache_bypass $http_pragma $arg_nocache;", "proxy_no_cache $cookie_session $arg_nocache;",
                  "proxy_cache_use_stale error timeout updating http_500;", "proxy_cache_lock on;", "proxy_cache_methods GET HEAD;", "proxy_cache_min_uses 1;", "proxy_ignore_headers Cache-Control Expires Set-Cookie;", "add_header X-Cache $upstream_cache_status;", "proxy_cache_revalidate on;", "proxy_cache_background_update on;", "proxy_hide_header Set-Cookie;", "proxy_ignore_headers Vary;", "expires 1h;"], 2, 7)
    keys = [l for l in lines if "cache_key" in l]
    lines = [l for l in lines if l not in keys[1:]]
    ign = [l for l in lines if "ignore_headers" in l]
    lines = [l for l in lines if l not in ign[1:]]
    f.server += ["location /ca/ {", f"  proxy_cache {zone};", *["  " + l for l in lines], f"  proxy_pass http://{f.up()};", "}"]

def realip(f):
    f.server += some(["set_real_ip_from 127.0.0.1;", "set_real_ip_from 127.0.0.0/8;", "set_real_ip_from 10.0.0.0/8;"], 1, 2)
    f.server += some(["real_ip_header X-Forwarded-For;", "real_ip_recursive on;"], 1, 2) if R.random() < 0.7 else ["real_ip_header X-Real-IP;"]
    f.server += ["location /ri/ {", "  proxy_set_header X-Real-IP $remote_addr;", "  proxy_set_header X-Forwarded-For " + pick("$proxy_add_x_forwarded_for", "$remote_addr") + ";", pick("", "  proxy_set_header X-Forwarded-Proto $scheme;"), pick("", "  allow 203.0.113.0/24; deny all;"), f"  proxy_pass http://{f.up()};", "}", "location /ri2 { return 200 \"$remote_addr $realip_remote_addr\\n\"; }"]

def balance(f):
    for index in range(R.randint(1, 3)):
        servers = [f"server 10.2.{index}.{n}:80{pick('', '', ' weight=3', ' backup', ' down', ' max_fails=0', ' max_fails=2 fail_timeout=5s', ' max_conns=100')};" for n in range(1, R.randint(2, 5))]
        method = pick("", "", "least_conn;", "ip_hash;", "hash $request_uri consistent;", "random;", "keepalive 16;", "hash $arg_k;", "random two least_conn;")
        if "hash" in method or "random" in method: servers = [s.replace(" backup", "") for s in servers]
        if all("backup" in s for s in servers): servers[0] = servers[0].replace(" backup", "")
        f.http += [f"upstream bal{index} {{", "  " + (method if "keepalive" not in method else ""), *["  " + s for s in servers], "  " + (method if "keepalive" in method else ""), "}"]
        next = pick("", "proxy_next_upstream error timeout http_500 http_502;", "proxy_next_upstream off;", "proxy_next_upstream_tries 1;", "proxy_next_upstream error http_503 non_idempotent;", "proxy_connect_timeout 2s; proxy_read_timeout 3s;", "proxy_next_upstream http_404 http_403;")
        f.server.append(f"location /bal{index}/ {{ {next} proxy_pass http://bal{index}{pick('', '/')}; }}")

def fastcgi(f):
    f.server += ["root /srv/php;", f"index {pick('index.php', 'index.php index.html', 'index.html')};"]
    params = ["include fastcgi_params;", "include fastcgi.conf;"]
    script = pick("fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;", "fastcgi_param SCRIPT_FILENAME /srv/php$fastcgi_script_name;", "fastcgi_param SCRIPT_FILENAME $realpath_root$fastcgi_script_name;", "fastcgi_param SCRIPT_FILENAME $request_filename;", "fastcgi_param SCRIPT_FILENAME /srv/app/front.php;")
    more = some(["fastcgi_split_path_info ^(.+\\.php)(/.+)$;", "fastcgi_param PATH_INFO $fastcgi_path_info;", "fastcgi_index index.php;", "fastcgi_param HTTPS on;", "fastcgi_param APP_ENV prod;", "fastcgi_param HTTP_PROXY \"\";", "fastcgi_intercept_errors on;", "fastcgi_param SERVER_NAME $host;", "fastcgi_param QUERY_STRING $query_string;", "fastcgi_param REMOTE_USER $remote_user;", "fastcgi_read_timeout 10s;",
                 "fastcgi_hide_header X-Powered-By;", "try_files $uri =404;", "try_files $fastcgi_script_name =404;", "fastcgi_param REQUEST_URI $uri$is_args$args;", "fastcgi_param SCRIPT_NAME /app.php;", "fastcgi_buffering off;"], 1, 5)
    if sum("try_files" in l for l in more) > 1: more = [l for l in more if "try_files $uri" not in l]
    place = pick("~ \\.php$", "~ \\.php(/|$)", "~ [^/]\\.php(/|$)", "~* \\.php$")
    f.server += [f"location {place} {{", *["  " + l for l in ([pick(*params)] + more + [script])], "  fastcgi_pass " + pick("127.0.0.1:9000", "unix:/run/php/php.sock", "10.3.0.1:9000") + ";", "}"]
    f.server.append("location / { " + pick("try_files $uri $uri/ /index.php?$args;", "try_files $uri $uri/ /index.php$is_args$args;", "try_files $uri /index.php;", "try_files $uri $uri/ =404;", "") + " }")
    if R.random() < 0.3: f.server.append("error_page 404 /index.php;")

def logs(f):
    formats = ["log_format own '$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\" \"$http_x_forwarded_for\"';", "log_format own escape=json '{\"u\":\"$uri\",\"a\":\"$args\",\"s\":$status,\"h\":\"$host\"}';", "log_format own '$host $request_method $uri $status $upstream_addr $upstream_status';", "log_format own '\"$request_uri\" $server_name $server_port $scheme $http_x_key $cookie_id $arg_q';", "log_format own '$request_length $bytes_sent $connection_requests \"$sent_http_content_type\" \"$request\" $status';"]
    f.http.append(pick(*formats))
    f.http.append(f"access_log /var/log/nginx/own.log own{pick('', ' buffer=4k', '')};")
    f.server.append("location /quiet { access_log off; return 200 q; }")
    f.server.append("location /log/ { " + pick("", "access_log /var/log/nginx/loc.log combined;", "access_log /var/log/nginx/own.log own if=$arg_q;") + f" proxy_pass http://{f.up()}; }}")

def switches(f):
    f.server += some(["merge_slashes off;", "absolute_redirect off;", "absolute_redirect on;", "port_in_redirect off;", "server_name_in_redirect on;", "underscores_in_headers on;", "ignore_invalid_headers off;", "large_client_header_buffers 2 1k;", "client_header_buffer_size 512;", "chunked_transfer_encoding off;", "keepalive_timeout 0;", "keepalive_requests 3;", "server_tokens off;", "sendfile on;", "tcp_nopush on;",
                      "send_timeout 5s;", "client_body_timeout 5s;", "lingering_close always;", "reset_timedout_connection on;", "msie_padding off;", "default_type text/html;", "log_not_found off;", "proxy_buffering off;", "etag off;", "satisfy any;", "client_body_in_file_only clean;", "if_modified_since before;", "recursive_error_pages on;", "connection_pool_size 512;"], 2, 6)
    f.server += ["location /sw/ { root /srv/sw; }", f"location /swp/ {{ proxy_pass http://{f.up()}; }}", f"location /swr {{ return 301 {pick('/x', '/x$uri', 'https://o.example/')}; }}"]
    if R.random() < 0.5: f.server.append("rewrite ^/swrw$ /sw/ permanent;")

def sets(f):
    f.server += ["set $up 10.1.200.1;", "set $base /b;"]
    f.server += some([f"location /set1/ {{ set $t http://10.1.200.2:8080; proxy_pass $t; }}", "location /set2/ { proxy_pass http://10.1.200.3:8080$base$uri; }", "location /set3/ { set $args \"\"; proxy_pass http://10.1.200.4:8080; }", "location /set4/ { set $x $arg_a; set $x \"${x}b\"; return 200 \"$x\\n\"; }", "location /set5/ { if ($arg_a) { set $args \"$args&extra=1\"; } proxy_pass http://10.1.200.5:8080; }",
                      "location /set6/ { set $limit_rate 100k; root /srv/set; }", "location /set7/ { set $u $request_uri; rewrite ^/set7/(.*)$ /x/$1 break; proxy_set_header X-U $u; proxy_set_header X-Uri $uri; proxy_pass http://10.1.200.7:8080; }", "location /set8/ { rewrite ^/set8/(.*)$ /x/$1 break; set $v $1; add_header X-V $v; proxy_pass http://10.1.200.8:8080; }",
                      "location ~ ^/set9/(.*)$ { set $cap $1; if ($http_x_a ~ (.+)) { set $cap \"$cap-$1\"; } add_header X-Cap $cap; return 200 c; }", "location /set10/ { return 200 \"$base $up $http_x_b $undefined_not\\n\"; }".replace(" $undefined_not", ""), "location /set11/ { set $http_x_new 5; add_header X-N $http_x_new; return 200 n; }"], 2, 5)

def clients(f):
    f.server += ["location /split/ { proxy_set_header X-V $variant; " + f"proxy_pass http://{f.up()}; }}", f"location /vr/ {{ valid_referers none blocked *.example.com example.*; if ($invalid_referer) {{ return 403; }} proxy_pass http://{f.up()}; }}"]
    f.http.append("split_clients $http_x_key $variant { 50% a; * b; }")

def slashes(f):
    for p in some(["/s1/", "/s2", "/s3/"], 1, 3):
        f.server.append(f"location {p} {{ proxy_pass http://{f.up()}{pick('', '/', '/t', '/t/')}; {pick('', 'internal;', 'allow 127.0.0.1; deny all;', 'add_header X-S 1;')} }}")
    if R.random() < 0.5: f.server.append(f"location {pick('= /s1', '/s1', '~ ^/s1$')} {{ return 200 exact; }}")
    if R.random() < 0.4: f.server.append("location /s3/deep/ { root /srv/deep; }")
    f.server.append("location / { " + pick("root /srv/sl;", f"proxy_pass http://{f.up()};", "return 404;", "return 301 /s1/;") + " }")

def tls(f):
    f.servers.append(["listen 8443 ssl;", "server_name tls.test;", "ssl_certificate certificate.pem;", "ssl_certificate_key certificate.pem;",
                      *some(["ssl_protocols TLSv1.2 TLSv1.3;", "ssl_ciphers HIGH:!aNULL:!MD5;", "ssl_prefer_server_ciphers on;", "ssl_session_cache shared:SSL:1m;", "ssl_session_tickets off;", "add_header Strict-Transport-Security max-age=63072000;", "add_header Strict-Transport-Security max-age=63072000 always;", "error_page 497 https://$host$request_uri;"], 1, 4),
                      f"location / {{ proxy_set_header X-Forwarded-Proto $scheme; {pick('', 'proxy_redirect http:// $scheme://;')} proxy_pass http://{f.up()}; }}", "location /t2 { return 301 $scheme://$host/x; }"])

FEATURES = [names, locations, passes, rewrites, ifs, returns, tries, errors, headers, upheaders, downheaders, files, access, authrequest, maps, limits, bodies, caches, realip, balance, fastcgi, logs, switches, sets, clients, slashes, tls]

def stream():
    names = some(["a.test x1;", "*.b.test x2;", ".c.test x1;", "default x2;", "~^www\\. x1;", "d.test 10.5.0.9:443;"], 1, 4)
    return "\n".join(["events { }", "stream {", "  upstream x1 { server 10.5.0.1:443; }", "  upstream x2 { " + pick("least_conn; ", "hash $remote_addr; ", "") + "server 10.5.0.2:443; server 10.5.0.3:443; }",
                      f"  map $ssl_preread_server_name $t {{ {pick('hostnames; ', '')}{' '.join(names)} }}", "  server { listen 9443; ssl_preread on; proxy_pass $t; }", f"  server {{ listen 9000; {pick('', 'allow 127.0.0.1; deny all;', 'deny 127.0.0.9;')} proxy_pass x2; {pick('', 'proxy_timeout 5s;', 'proxy_connect_timeout 1s;')} }}", "}"]) + "\n"

def combined():
    if R.random() < 0.03: return stream()
    f = File()
    chosen = some(FEATURES, 1, 3)
    for feature in chosen: feature(f)
    text = ["# " + ", ".join(one.__name__ for one in chosen), "events { }", "http {"]
    text += ["  " + l for l in f.http]
    if f.server:
        # Roots of several features: the last one counts.
        roots = [l for l in f.server if l.startswith("root ")]
        own = [l for l in f.server if not (l.startswith("root ") and l is not roots[-1])]
        seen, kept = set(), []
        for l in own:
            key = l if re.match(r"(index|client_max_body_size|etag|real_ip|satisfy|expires|charset|default_type|proxy_buffering|merge|if_mod|error_page 404)\b", l) else None
            if key:
                key = key.split()[0] if not key.startswith("error_page") else key
                if key in seen: continue
                seen.add(key)
            kept.append(l)
        f.servers.append([f"listen {pick('8080', '8080', '80', '127.0.0.1:8080')};", f"server_name {pick('a.test', 'a.test www.a.test', '_', 'main.test')};"] + kept)
    for server in f.servers: text += ["  server {"] + ["    " + l for l in server] + ["  }"]
    return "\n".join(l for l in text + ["}"] if l.strip()) + "\n"

# ---------------------------------------------------------------- mutation

def mutated(text):
    lines = text.split("\n")
    for _ in range(R.randint(1, 3)):
        simple = [i for i, l in enumerate(lines) if l.strip() and "{" not in l and "}" not in l and not l.strip().startswith("#")]
        blocks = [i for i, l in enumerate(lines) if re.match(r"\s+location .*\{.*\}\s*$", l)]
        if not simple: break
        kind, i = R.randint(0, 9), pick(*simple)
        if kind == 0: del lines[i]
        elif kind == 1: lines.insert(pick(*simple), lines[i])
        elif kind == 2:
            j = pick(*simple); lines[i], lines[j] = lines[j], lines[i]
        elif kind == 3: # a level up: before the block that it is in
            depth = 0
            for j in range(i - 1, -1, -1):
                depth += lines[j].count("}") - lines[j].count("{")
                if depth < 0: lines.insert(j, lines.pop(i)); break
        elif kind == 4 and blocks: # a level down: into a location
            j = pick(*blocks); one = lines[i].strip()
            lines[j] = lines[j].replace("{", "{ " + one + " ", 1)
            if R.random() < 0.5: del lines[i]
        elif kind == 5:
            places = [j for j, l in enumerate(lines) if re.match(r"\s*location (= |\^~ |~\*? )?/?", l)]
            if places:
                j = pick(*places)
                lines[j] = re.sub(r"location (= |\^~ |~ |~\* )?(/\S*)", lambda m: f"location {pick('', '= ', '^~ ')}{m[2]}", lines[j], count=1)
        elif kind == 6:
            places = [j for j, l in enumerate(lines) if "proxy_pass http" in l]
            if places:
                j = pick(*places)
                lines[j] = re.sub(r"proxy_pass (http://[^;/]+)([^;]*);", lambda m: f"proxy_pass {m[1]}{pick('', '/', '/k', '/k/')};", lines[j], count=1)
        elif kind == 7 and blocks:
            a, b = pick(*blocks), pick(*blocks); lines[a], lines[b] = lines[b], lines[a]
        elif kind == 8 and blocks: # one location into another
            a, b = pick(*blocks), pick(*blocks)
            if a != b:
                lines[b] = re.sub(r"\}\s*$", lines[a].strip() + " }", lines[b]); del lines[a]
        elif kind == 9:
            lines[i] = pick(lines[i].replace(" always", ""), re.sub(r" (\w+);$", r" \1 always;", lines[i]) if "add_header" in lines[i] else lines[i], lines[i].replace("/;", ";"), lines[i].replace(";", "/;") if "root" in lines[i] else lines[i], lines[i].replace("$1", "$uri"))
    return "\n".join(lines)

def accepted(text):
    with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as out: out.write(text.replace("user ", "#user "))
    # `include fastcgi_params` counts from /etc/nginx.
    path = "/etc/nginx/generated.conf"
    os.replace(out.name, path) if os.stat(out.name).st_dev == os.stat("/etc/nginx").st_dev else open(path, "w").write(text)
    done = subprocess.run(["nginx", "-t", "-c", path], capture_output=True, text=True)
    return done.returncode == 0, done.stderr

def main():
    folder, count, seed = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200, int(sys.argv[3]) if len(sys.argv) > 3 else 1
    os.makedirs(folder, exist_ok=True)
    R.seed(seed)
    made, drawn = [], 0
    while len(made) < count and drawn < count * 20:
        drawn += 1
        text = combined() if len(made) < count // 2 else mutated(pick(*made[:count // 2]) if R.random() < 0.6 else combined())
        ok, why = accepted(text)
        if not ok:
            if os.environ.get("WHY"): print(why.strip().split("\n")[0], file=sys.stderr)
            continue
        if text in made: continue
        made.append(text)
        open(f"{folder}/g{len(made):03}.conf", "w").write(text)
    os.remove("/etc/nginx/generated.conf")
    print(f"{len(made)} files of {drawn} drawn")

main()
