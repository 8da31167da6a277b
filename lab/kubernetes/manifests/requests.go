package manifests

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// requestPause is between two requests that are sent all the time.
const requestPause = 20 * time.Millisecond

// requests are sent one after the other, each by a connection of its own, as long as they are not ended.
type requests struct {
	stop  context.CancelFunc
	ended chan struct{}

	mutex  sync.Mutex
	sent   int
	failed []error
}

// startRequests returns when a Gateway has answered.
func (of *check) startRequests(ctx context.Context, gateway *unstructured.Unstructured) (*requests, error) {
	addr, err := of.awaitAddr(ctx, gateway, []string{"status", "addresses"}, "value")
	if err != nil {
		return nil, err
	}
	url := "http://" + addr + "/"
	if err := awaitResponse(ctx, url, "any.example"); err != nil {
		return nil, err
	}
	limited, stop := context.WithCancel(ctx)
	begun := &requests{stop: stop, ended: make(chan struct{})}
	go begun.run(limited, url)
	return begun, nil
}

func (of *requests) run(ctx context.Context, url string) {
	defer close(of.ended)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		response, err := client.Get(url)
		if err == nil {
			if response.StatusCode != http.StatusOK {
				err = fmt.Errorf("the response is %s", response.Status)
			}
			response.Body.Close()
		}
		of.mutex.Lock()
		of.sent++
		if err != nil {
			of.failed = append(of.failed, err)
		}
		of.mutex.Unlock()
		time.Sleep(requestPause)
	}
}

// counts are those until now.
func (of *requests) counts() (int, []error) {
	of.mutex.Lock()
	defer of.mutex.Unlock()
	return of.sent, of.failed
}

func (of *requests) end() {
	of.stop()
	<-of.ended
}
