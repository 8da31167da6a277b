package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// makeVolumes waits until everything that the volumes refer to is there, as a kubelet does.
func (agent *Agent) makeVolumes(ctx context.Context, begun *pod) (map[string]string, error) {
	folders := map[string]string{}
	for _, volume := range begun.object.Spec.Volumes {
		folder := filepath.Join(agent.podFolder(begun), "volumes", volume.Name)
		for {
			err := agent.makeVolume(ctx, begun, volume, folder)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-begun.stopped:
				return nil, fmt.Errorf("volume %s: %w", volume.Name, err)
			case <-time.After(200 * time.Millisecond):
			}
		}
		folders[volume.Name] = folder
	}
	return folders, nil
}

func (agent *Agent) removeVolumes(of *pod) { _ = os.RemoveAll(agent.podFolder(of)) }

func (agent *Agent) makeVolume(ctx context.Context, begun *pod, volume corev1.Volume, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	content := files{}
	var err error
	switch {
	case volume.EmptyDir != nil:
		return os.Chmod(folder, 0o777)
	case volume.Secret != nil:
		err = agent.addSecret(ctx, begun, content, volume.Secret.SecretName, volume.Secret.Items, volume.Secret.Optional)
	case volume.ConfigMap != nil:
		err = agent.addConfigMap(ctx, begun, content, volume.ConfigMap.Name, volume.ConfigMap.Items, volume.ConfigMap.Optional)
	case volume.DownwardAPI != nil:
		content.addFields(begun, volume.DownwardAPI.Items)
	case volume.Projected != nil:
		err = agent.addProjected(ctx, begun, content, volume.Projected.Sources)
	default:
		err = fmt.Errorf("a kind of volume that this agent lacks")
	}
	if err != nil {
		return err
	}
	return content.write(folder)
}

func (agent *Agent) addProjected(ctx context.Context, begun *pod, content files, sources []corev1.VolumeProjection) error {
	for _, source := range sources {
		var err error
		switch {
		case source.Secret != nil:
			err = agent.addSecret(ctx, begun, content, source.Secret.Name, source.Secret.Items, source.Secret.Optional)
		case source.ConfigMap != nil:
			err = agent.addConfigMap(ctx, begun, content, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional)
		case source.DownwardAPI != nil:
			content.addFields(begun, source.DownwardAPI.Items)
		case source.ServiceAccountToken != nil:
			err = agent.addToken(ctx, begun, content, source.ServiceAccountToken)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (agent *Agent) addSecret(ctx context.Context, begun *pod, content files, name string, items []corev1.KeyToPath, optional *bool) error {
	secret, err := agent.Client.CoreV1().Secrets(begun.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return unlessOptional(err, optional)
	}
	content.addItems(secret.Data, items)
	return nil
}

func (agent *Agent) addConfigMap(ctx context.Context, begun *pod, content files, name string, items []corev1.KeyToPath, optional *bool) error {
	configMap, err := agent.Client.CoreV1().ConfigMaps(begun.object.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return unlessOptional(err, optional)
	}
	data := configMap.BinaryData
	if data == nil {
		data = map[string][]byte{}
	}
	for key, text := range configMap.Data {
		data[key] = []byte(text)
	}
	content.addItems(data, items)
	return nil
}

func unlessOptional(err error, optional *bool) error {
	if optional != nil && *optional {
		return nil
	}
	return err
}

// addToken is not renewed: it outlives every run.
func (agent *Agent) addToken(ctx context.Context, begun *pod, content files, source *corev1.ServiceAccountTokenProjection) error {
	var audiences []string
	if source.Audience != "" {
		audiences = []string{source.Audience}
	}
	seconds := int64(24 * 3600)
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{
		Audiences: audiences, ExpirationSeconds: &seconds,
		BoundObjectRef: &authentication.BoundObjectReference{
			Kind: "Pod", APIVersion: "v1", Name: begun.object.Name, UID: begun.object.UID,
		},
	}}
	request, err := agent.Client.CoreV1().ServiceAccounts(begun.object.Namespace).
		CreateToken(ctx, begun.object.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	content[source.Path] = []byte(request.Status.Token)
	return nil
}

// files of a volume, by path.
type files map[string][]byte

func (content files) addItems(data map[string][]byte, items []corev1.KeyToPath) {
	if len(items) == 0 {
		for key, value := range data {
			content[key] = value
		}
	}
	for _, item := range items {
		content[item.Path] = data[item.Key]
	}
}

func (content files) addFields(of *pod, items []corev1.DownwardAPIVolumeFile) {
	for _, item := range items {
		if item.FieldRef != nil {
			content[item.Path] = []byte(fieldOf(of, item.FieldRef.FieldPath))
		}
	}
}

// write makes them readable for the users of all containers.
func (content files) write(folder string) error {
	for path, data := range content {
		name := filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
