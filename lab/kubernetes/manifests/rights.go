package manifests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	authorization "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// accounts of all releases: of controllers, of pods for Ingresses, and of the Gateways that the controllers have made pods for. The namespace of
// releases without Ingresses is that of the manifest for them.
func (of *check) accounts(ctx context.Context) ([]Release, error) {
	all, err := of.cluster.Client.CoreV1().ServiceAccounts(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var found []Release
	for _, each := range all.Items {
		isOurs := strings.HasSuffix(each.Name, "-controller") || strings.HasSuffix(each.Name, "-ingress") || strings.HasPrefix(each.Name, "front-")
		// Controllers of Kubernetes have accounts here.
		if isOurs && each.Namespace != metav1.NamespaceSystem {
			found = append(found, Release{each.Namespace, each.Name})
		}
	}
	return found, nil
}

// client makes requests with the rights of an account.
func (of *check) client(account Release) (kubernetes.Interface, error) {
	config := rest.CopyConfig(of.cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: account.user(),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + account.Namespace, "system:authenticated"},
	}
	return kubernetes.NewForConfig(config)
}

func (of Release) user() string { return "system:serviceaccount:" + of.Namespace + ":" + of.Name }

// right is one verb for one resource, in one namespace or anywhere, for one object or all.
type right struct{ verb, resource, name, namespace string }

func (of right) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s in %s", of.verb, of.resource, of.name, of.namespace))
}

const everywhere = "all namespaces"

// rightsOf are what the API server grants an account that an account without roles lacks.
func (of *check) rightsOf(ctx context.Context, account Release) (map[right]bool, error) {
	client, err := of.client(account)
	if err != nil {
		return nil, err
	}
	nothing, err := of.client(Release{account.Namespace, "default"})
	if err != nil {
		return nil, err
	}
	everyone, err := rulesIn(ctx, nothing, tenant)
	if err != nil {
		return nil, err
	}
	// Nothing is granted in that namespace alone.
	all, err := rulesIn(ctx, client, metav1.NamespaceSystem)
	if err != nil {
		return nil, err
	}
	own, err := rulesIn(ctx, client, account.Namespace)
	if err != nil {
		return nil, err
	}
	granted := map[right]bool{}
	for each := range own {
		each.namespace = account.Namespace
		granted[each] = true
	}
	for each := range all {
		delete(granted, right{each.verb, each.resource, each.name, account.Namespace})
		each.namespace = everywhere
		granted[each] = true
	}
	for each := range everyone {
		for _, namespace := range []string{everywhere, account.Namespace} {
			delete(granted, right{each.verb, each.resource, each.name, namespace})
		}
	}
	return granted, nil
}

func rulesIn(ctx context.Context, client kubernetes.Interface, namespace string) (map[right]bool, error) {
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, &authorization.SelfSubjectRulesReview{
		Spec: authorization.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	if review.Status.Incomplete {
		return nil, fmt.Errorf("the rules in %s are incomplete: %s", namespace, review.Status.EvaluationError)
	}
	rules := map[right]bool{}
	for _, rule := range review.Status.ResourceRules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						rules[right{verb: verb, resource: qualified(group, resource), name: name}] = true
					}
				}
			}
		}
	}
	return rules, nil
}

func qualified(group, resource string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// checkRights compares what each account may do with what it has asked for since the cluster began: nothing was refused, and no right is left over.
// Leases are renewed after some seconds.
func (of *check) checkRights(ctx context.Context) error {
	if err := await(ctx, "rights", func() error { return of.compareRights(ctx) }); err != nil {
		return err
	}
	fmt.Println("rights,each was used and none was missing")
	return nil
}

func (of *check) compareRights(ctx context.Context) error {
	requests, err := of.cluster.Requests()
	if err != nil {
		return err
	}
	accounts, err := of.accounts(ctx)
	if err != nil {
		return err
	}
	if wanted := 3 * len(of.Releases); len(accounts) != wanted {
		return fmt.Errorf("%d accounts instead of %d: %v", len(accounts), wanted, accounts)
	}
	var failures []error
	for _, account := range accounts {
		granted, err := of.rightsOf(ctx, account)
		if err != nil {
			return err
		}
		used := map[right]bool{}
		for _, request := range requests {
			if request.User != account.user() {
				continue
			}
			resource := qualified(request.Group, request.Resource)
			if request.Status == 403 {
				failures = append(failures, fmt.Errorf("%s was refused: %s %s %s/%s", account.user(), request.Verb, resource, request.Namespace, request.Name))
			}
			for _, name := range []string{"", request.Name} {
				for _, namespace := range []string{everywhere, request.Namespace} {
					used[right{request.Verb, resource, name, namespace}] = true
				}
			}
		}
		for _, each := range sorted(granted) {
			if !used[each] && !isImplied(each, granted, used) {
				failures = append(failures, fmt.Errorf("%s never used a right: %s", account.user(), each))
			}
		}
	}
	return errors.Join(failures...)
}

// isImplied is true of what no request shows: an object is read by listing it, created by applying it, and a role given by binding it.
func isImplied(of right, granted, used map[right]bool) bool {
	switch of.verb {
	case "get":
		of.verb = "list"
		return granted[of]
	case "create":
		of.verb = "patch"
		return used[of]
	case "bind":
		return true
	}
	return false
}

func sorted(rights map[right]bool) []right {
	list := make([]right, 0, len(rights))
	for each := range rights {
		list = append(list, each)
	}
	slices.SortFunc(list, func(a, b right) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// checkRefused has accounts ask for what would give them more, or others' secrets.
func (of *check) checkRefused(ctx context.Context) error {
	accounts, err := of.accounts(ctx)
	if err != nil {
		return err
	}
	var failures []error
	count := 0
	for _, account := range accounts {
		client, err := of.client(account)
		if err != nil {
			return err
		}
		for what, request := range map[string]func() error{
			"remove a pod of Kubernetes": func() error {
				return client.CoreV1().Pods(metav1.NamespaceSystem).Delete(ctx, "anything", metav1.DeleteOptions{})
			},
			"run a program in a pod": func() error {
				return client.CoreV1().RESTClient().Post().Resource("pods").Namespace(tenant).Name("anything").SubResource("exec").Do(ctx).Error()
			},
			"write a Secret": func() error {
				_, err := client.CoreV1().Secrets(account.Namespace).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "made"}}, metav1.CreateOptions{})
				return err
			},
			"give itself all rights": func() error {
				return bind(ctx, client, account, rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: "cluster-admin"})
			},
			"get a token of another account": func() error {
				return client.CoreV1().RESTClient().Post().Resource("serviceaccounts").Namespace(metav1.NamespaceSystem).Name("default").SubResource("token").Do(ctx).Error()
			},
			"read the Secrets of Kubernetes": func() error {
				if of.mayReadSecrets(account) {
					return apierrors.NewForbidden(corev1.Resource("secrets"), "", nil)
				}
				_, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{})
				return err
			},
		} {
			count++
			if err := request(); !apierrors.IsForbidden(err) {
				failures = append(failures, fmt.Errorf("%s may %s: %v", account.user(), what, err))
			}
		}
	}
	fmt.Printf("refused,%d requests of %d accounts\n", count, len(accounts))
	return errors.Join(failures...)
}

// mayReadSecrets is true of pods for Ingresses, whose certificates are anywhere, and of Gateways of a release that says so: all but the first.
func (of *check) mayReadSecrets(account Release) bool {
	return strings.HasSuffix(account.Name, "-ingress") || strings.HasPrefix(account.Name, "front-") && account.Name != "front-"+of.Releases[0].Name
}

func bind(ctx context.Context, client kubernetes.Interface, account Release, role rbac.RoleRef) error {
	_, err := client.RbacV1().RoleBindings(account.Namespace).Create(ctx, &rbac.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "made"}, RoleRef: role,
		Subjects: []rbac.Subject{{Kind: rbac.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}, metav1.CreateOptions{})
	return err
}
