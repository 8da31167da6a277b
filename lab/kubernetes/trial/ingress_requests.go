package trial

import (
	"context"
	"crypto/tls"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// request is one through the Ingresses, and what has to come of it.
type request struct {
	what   string
	host   string
	path   string
	secure bool
	// header and value are a field of the request, if there is one.
	header, value string
	body          int
	wanted        reply
}

// reply has the parts of a response that are looked at; those that are empty are not.
type reply struct {
	status int
	// service, path and host are what the server says that it is and that it got.
	service, path, host string
	// field is one of the header, such as "Location: /".
	field string
	// subject of the certificate.
	subject string
}

// asker asks at one address, by a new connection each time.
type asker struct{ addr string }

func (of asker) ask(ctx context.Context, asked request) (reply, error) {
	scheme, port := "http", "80"
	if asked.secure {
		scheme, port = "https", "443"
	}
	client := &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, ServerName: asked.host},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, net.JoinHostPort(of.addr, port))
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	method, body := http.MethodGet, io.Reader(nil)
	if asked.body > 0 {
		method, body = http.MethodPost, strings.NewReader(strings.Repeat("x", asked.body))
	}
	sent, err := http.NewRequestWithContext(ctx, method, scheme+"://"+asked.host+asked.path, body)
	if err != nil {
		return reply{}, err
	}
	if asked.header != "" {
		sent.Header.Set(asked.header, asked.value)
	}
	response, err := client.Do(sent)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return reply{}, err
	}
	got := reply{status: response.StatusCode}
	var told struct{ Service, Path, Host string }
	if json.Unmarshal(text, &told) == nil {
		got.service, got.path, got.host = told.Service, told.Path, told.Host
	}
	if name, _, found := strings.Cut(asked.wanted.field, ": "); found {
		got.field = name + ": " + response.Header.Get(name)
	}
	if response.TLS != nil {
		got.subject = response.TLS.PeerCertificates[0].Subject.CommonName
	}
	return got, nil
}

// fits is whether a reply has all parts that are wanted.
func (of reply) fits(wanted reply) bool {
	return of.status == wanted.status && fitsText(of.service, wanted.service) && fitsText(of.path, wanted.path) && fitsText(of.host, wanted.host) &&
		fitsText(of.field, wanted.field) && fitsText(of.subject, wanted.subject)
}

func fitsText(got, wanted string) bool { return wanted == "" || got == wanted }

// print prints a row of the table.
func (of reply) print(kind, what string, took time.Duration) {
	rows := csv.NewWriter(os.Stdout)
	_ = rows.Write([]string{kind, what, strconv.Itoa(of.status), of.service, of.path, of.host, of.field, of.subject, fmt.Sprintf("%.1f", inMillis(took))})
	rows.Flush()
}

// await asks until the reply fits, and returns how long that took.
func (of asker) await(ctx context.Context, asked request) (reply, time.Duration, error) {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	began := time.Now()
	for {
		got, err := of.ask(limited, asked)
		if err == nil && got.fits(asked.wanted) {
			return got, time.Since(began), nil
		}
		if pause(limited, probePause) != nil {
			return got, 0, fmt.Errorf("%s: wanted %+v, got %+v, %v", asked.what, asked.wanted, got, err)
		}
	}
}

// ingressRequests are asked once all Ingresses are served.
var ingressRequests = []request{
	{what: "below a prefix", host: "plain.example", path: "/app/x?y=1", wanted: reply{status: 200, service: "first", path: "/app/x?y=1", host: "plain.example"}},
	{what: "beside a prefix", host: "plain.example", path: "/application", wanted: reply{status: 404}},
	{what: "a host of none", host: "nothing.example", path: "/", wanted: reply{status: 404}},
	{what: "use-regex: the case does not matter", host: "regex.example", path: "/ABC", wanted: reply{status: 200, service: "first", path: "/ABC"}},
	{what: "use-regex: no match", host: "regex.example", path: "/abcd", wanted: reply{status: 404}},
	{what: "rewrite-target with a group", host: "rewrite.example", path: "/API/v1/users?x=1", wanted: reply{status: 200, path: "/v1/users?x=1"}},
	{what: "a host with a certificate by http", host: "tls.example", path: "/a?b", wanted: reply{status: 308, field: "Location: https://tls.example/a?b"}},
	{what: "a host with a certificate", host: "tls.example", path: "/a", secure: true, wanted: reply{status: 200, service: "first", subject: "first"}},
	{what: "ssl-redirect: false", host: "open.example", path: "/", wanted: reply{status: 200, service: "first"}},
	{what: "force-ssl-redirect", host: "forced.example", path: "/", wanted: reply{status: 308, field: "Location: https://forced.example/"}},
	{what: "canary-by-header: always", host: "canary.example", path: "/", header: "X-Canary", value: "always", wanted: reply{status: 200, service: "second"}},
	{what: "canary-by-header: never", host: "canary.example", path: "/", header: "X-Canary", value: "never", wanted: reply{status: 200, service: "first"}},
	{what: "whitelist-source-range with the client", host: "allowed.example", path: "/", wanted: reply{status: 200, service: "first"}},
	{what: "whitelist-source-range without the client", host: "refused.example", path: "/", wanted: reply{status: 403}},
	{what: "denylist-source-range", host: "denied.example", path: "/", wanted: reply{status: 403}},
	{what: "auth-type basic without a password", host: "basic.example", path: "/", wanted: reply{status: 401, field: `Www-Authenticate: Basic realm="staff", charset="UTF-8"`}},
	{what: "auth-type basic with a wrong password", host: "basic.example", path: "/", header: "Authorization", value: "Basic YW5uOndyb25n", wanted: reply{status: 401}},
	{what: "auth-type basic with the password", host: "basic.example", path: "/", header: "Authorization", value: "Basic YW5uOnNlY3JldA==", wanted: reply{status: 200, service: "first"}},
	{what: "auth-url that refuses", host: "asked.example", path: "/", wanted: reply{status: 401}},
	{what: "auth-url that admits", host: "admitted.example", path: "/", wanted: reply{status: 200, service: "first"}},
	{what: "proxy-body-size: within", host: "sized.example", path: "/", body: 1024, wanted: reply{status: 200, service: "first"}},
	{what: "proxy-body-size: more", host: "sized.example", path: "/", body: 1025, wanted: reply{status: 413}},
	{what: "enable-cors", host: "cors.example", path: "/", header: "Origin", value: "https://page.example", wanted: reply{status: 200, field: "Access-Control-Allow-Origin: https://page.example"}},
	{what: "upstream-vhost", host: "vhost.example", path: "/", wanted: reply{status: 200, host: "inside.example"}},
	{what: "permanent-redirect", host: "moved.example", path: "/old", wanted: reply{status: 301, field: "Location: https://elsewhere.example/new"}},
	{what: "app-root", host: "root.example", path: "/", wanted: reply{status: 302, field: "Location: /start"}},
	{what: "server-alias", host: "second-name.example", path: "/", wanted: reply{status: 200, service: "first", host: "second-name.example"}},
	{what: "an unknown annotation", host: "unknown.example", path: "/", wanted: reply{status: 200, service: "first"}},
	{what: "a snippet", host: "closed.example", path: "/", wanted: reply{status: 503}},
	{what: "a snippet with serve-without", host: "without.example", path: "/", wanted: reply{status: 200, service: "first"}},
	{what: "a Service that does not exist", host: "absent.example", path: "/", wanted: reply{status: 503}},
	{what: "another class", host: "foreign.example", path: "/", wanted: reply{status: 404}},
}
