# What a user does with the package on a fresh Debian, step by step, and whether it came out as documented. Each step leaves a line in
# /trial/result: "ok WHAT" or "FAILED WHAT".

export DEBIAN_FRONTEND=noninteractive LC_ALL=C
result=/trial/result
: >"$result"

check() {
	what=$1
	shift
	if "$@" >/trial/output 2>&1; then
		echo "ok $what" >>"$result"
	else
		echo "FAILED $what: $* ($(tail -n 3 /trial/output | tr '\n' ' '))" >>"$result"
	fi
}

equal() {
	echo "$1 is wanted, there is $2"
	[ "$1" = "$2" ]
}

status_of() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$(systemctl show --value --property MainPID weir)/status"; }
page() { curl --silent --show-error --fail --max-time 10 "$@"; }
has() { page "$2" | grep -q "$1"; }
not() { ! "$@"; }

# What three commands take: to install the package, to add a site, to reload. The clock runs for these alone.
taken=0
clock() { date +%s%3N; }
timed() {
	began=$(clock)
	check "$@"
	taken=$((taken + $(clock) - began))
}

# From nothing to the first page.
timed "the package installs" apt-get install --yes /trial/weir.deb
check "the service is up" systemctl is-active weir
check "the service starts with the system" systemctl is-enabled weir
check "the welcome page is served" has "Weir works" http://127.0.0.1/
check "it runs as user weir" equal weir "$(stat --format %U "/proc/$(systemctl show --value --property MainPID weir)")"
check "no capability but CAP_NET_BIND_SERVICE is effective" equal 0000000000000400 "$(status_of CapEff)"
check "no other capability can be gained" equal 0000000000000400 "$(status_of CapBnd)"
check "no new privileges" equal 1 "$(status_of NoNewPrivs)"
check "system calls are filtered" equal 2 "$(status_of Seccomp)"
check "weir ctl reaches it" weir ctl ready --config /etc/weir/weir.toml
check "the manual of the config is there" test -s /usr/share/man/man5/weir.toml.5.gz

# A site with HTTPS, beside a server of ours.
install -d -m 0750 -g weir /etc/weir/tls
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=www.example.com \
	-addext subjectAltName=DNS:www.example.com -keyout /etc/weir/tls/www.example.com.key \
	-out /etc/weir/tls/www.example.com.pem 2>/dev/null
chgrp weir /etc/weir/tls/*
chmod 0640 /etc/weir/tls/*
cat >/trial/server.toml <<'CONFIG'
[listener.server]
address = "127.0.0.1:8080"
[[listener.server.route]]
respond = { status = 200, body = "from the server\n" }
CONFIG
systemd-run --quiet --unit trial-server --property Type=notify weir serve /trial/server.toml
timed "a site is added" cp /usr/share/doc/weir/examples/site.toml /etc/weir/conf.d/example.toml
check "the config with a site has no errors" weir check /etc/weir/weir.toml
timed "the site is put to use" systemctl reload weir
site() {
	page --retry 20 --retry-connrefused --retry-delay 1 --cacert /etc/weir/tls/www.example.com.pem \
		--connect-to www.example.com:443:127.0.0.1:443 https://www.example.com/
}
answered() { equal "from the server" "$(site)"; }
timed "HTTPS reaches the server" answered
echo "note: from the package to the first request over HTTPS: $taken ms" >>"$result"

# A config with errors changes nothing, and says so.
echo 'upstraem = 1' >/etc/weir/conf.d/broken.toml
check "a config with errors is refused" not systemctl reload weir
check "and changes nothing" equal "from the server" "$(site)"
rm /etc/weir/conf.d/broken.toml

# The log, and its rotation.
check "requests are in the access log" grep -q "GET / " /var/log/weir/access.log
check "which administrators can read" equal "weir adm 640" "$(stat --format '%U %G %a' /var/log/weir/access.log)"
mv /var/log/weir/access.log /var/log/weir/access.log.1
systemctl kill --kill-who=main --signal=USR1 weir
until [ -e /var/log/weir/access.log ]; do sleep 0.1; done
check "a new file after rotation" equal "from the server" "$(site)"

# The program is replaced while it runs, and systemd follows.
main_process() { systemctl show --property MainPID --value weir; }
before=$(main_process)
check "the program is replaced" weir upgrade --config /etc/weir/weir.toml
check "systemd knows the new process" not equal "$before" "$(main_process)"
check "the unit is active" systemctl is-active weir
check "the site goes on" equal "from the server" "$(site)"

# systemd's own judgement of what the unit leaves open: a tenth part is more exact than a word.
exposure=$(systemd-analyze security --no-pager weir | sed -n 's/.*Overall exposure level for weir.service: \([0-9.]*\).*/\1/p')
echo "note: exposure $exposure" >>"$result"
check "the exposure of the unit is below 1.5" awk "BEGIN { exit !($exposure < 1.5) }"
check "nothing was refused to it" not sh -c 'journalctl --unit weir | grep -iE "operation not permitted|permission denied|panicked"'

# Again, and away.
echo '# mine' >>/etc/weir/weir.toml
check "the same package again" apt-get install --yes --reinstall /trial/weir.deb
check "the config of the operator is kept" grep -q '# mine' /etc/weir/weir.toml
check "it goes on" systemctl is-active weir
check "which needed no restart" sh -c 'test "$(journalctl --unit weir | grep -c "another process serves now")" -ge 2'
check "it is removed" apt-get remove --yes weir
check "it is stopped" not systemctl is-active weir
check "its config stays" test -e /etc/weir/weir.toml
check "it is purged" apt-get purge --yes weir
check "no log is left" not test -e /var/log/weir
check "no state is left" not test -e /var/lib/weir
check "no config is left but what the operator made" not test -e /etc/weir/weir.toml
echo "end" >>"$result"
