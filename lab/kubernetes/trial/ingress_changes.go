package trial

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// changeAll makes changes one after the other, each of which has to take effect in every pod of Weir.
func (of *ingressSite) changeAll(ctx context.Context) error {
	apply := func(each ingress) func() error {
		return func() error { return of.applier.Text(ctx, []byte(each.text())) }
	}
	first, second := reply{status: 200, service: "first"}, reply{status: 200, service: "second"}
	var failures []error
	for _, step := range []struct {
		what   string
		change func() error
		asked  request
	}{
		{"another Service", apply(ingress{name: "plain", path: "/app", service: "second"}), request{host: "plain.example", path: "/app", wanted: second}},
		{"a new Ingress", apply(ingress{name: "new"}), request{host: "new.example", path: "/", wanted: first}},
		{"an annotation more", apply(ingress{name: "new", annotations: map[string]string{"whitelist-source-range": "192.0.2.0/24"}}),
			request{host: "new.example", path: "/", wanted: reply{status: 403}}},
		{"a value that cannot be used", apply(ingress{name: "new", annotations: map[string]string{"whitelist-source-range": "everyone"}}),
			request{host: "new.example", path: "/", wanted: reply{status: 503}}},
		{"the annotation is gone", apply(ingress{name: "new"}), request{host: "new.example", path: "/", wanted: first}},
		{"other users", func() error {
			return of.applier.Text(ctx, []byte("apiVersion: v1\nkind: Secret\nmetadata: {name: users, namespace: trial}\ntype: Opaque\nstringData: {auth: \"eve:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\"}\n"))
		}, request{host: "basic.example", path: "/", header: "Authorization", value: "Basic YW5uOnNlY3JldA==", wanted: reply{status: 401}}},
		{"another certificate", func() error { return of.writeCertificate(ctx, "tls", "renewed", "tls.example", "open.example") },
			request{host: "tls.example", path: "/", secure: true, wanted: reply{status: 200, subject: "renewed"}}},
		{"no pods", func() error { return of.applier.Text(ctx, fmt.Appendf(nil, ingressServer, "second", 0)) },
			request{host: "plain.example", path: "/app", wanted: reply{status: 503}}},
		{"pods again", func() error { return of.applier.Text(ctx, fmt.Appendf(nil, ingressServer, "second", 1)) },
			request{host: "plain.example", path: "/app", wanted: second}},
		{"no Service", func() error { return of.applier.Delete(ctx, named("v1", "Service", "second")) },
			request{host: "plain.example", path: "/app", wanted: reply{status: 503}}},
		{"no canary", func() error {
			return of.applier.Delete(ctx, named("networking.k8s.io/v1", "Ingress", "canary-canary"))
		}, request{host: "canary.example", path: "/", header: "X-Canary", value: "always", wanted: first}},
		{"another class", apply(ingress{name: "new", class: "other"}), request{host: "new.example", path: "/", wanted: reply{status: 404}}},
		{"the class again", apply(ingress{name: "new"}), request{host: "new.example", path: "/", wanted: first}},
		{"no Ingress", func() error { return of.applier.Delete(ctx, named("networking.k8s.io/v1", "Ingress", "new")) },
			request{host: "new.example", path: "/", wanted: reply{status: 404}}},
	} {
		step.asked.what = step.what
		if err := step.change(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		got, took, err := of.awaitAll(ctx, step.asked)
		failures = append(failures, err)
		got.print("change", step.what, took)
	}
	if err := of.awaitEvent(ctx, "new", "NotServed", "whitelist-source-range"); err != nil {
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// replies is how often in a row a reply has to fit: a pod of two that has an older state does not answer as many by chance.
const replies = 12

// awaitAll returns when all pods of Weir give the reply that is wanted. The time is that of the first one.
func (of *ingressSite) awaitAll(ctx context.Context, asked request) (reply, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	got, took, err := of.await(ctx, asked)
	for count := 1; err == nil && count < replies; count++ {
		var later reply
		if later, err = of.ask(ctx, asked); err == nil && !later.fits(asked.wanted) {
			count = 0
		}
	}
	return got, took, err
}
