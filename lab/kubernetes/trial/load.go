package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// load sends requests at a fixed rate, GET and POST in turn, and counts those that fail.
type load struct {
	client *http.Client
	url    string
	mutex  sync.Mutex
	sent   int
	failed int
	// causes has how often each kind of failure came.
	causes map[string]int
}

// requestTimeout makes a request that hangs a failure.
const requestTimeout = 10 * time.Second

func newLoad(addr string) *load {
	return &load{
		client: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 256, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}},
		url:    "http://" + addr + "/", causes: map[string]int{},
	}
}

// run ends with the context, when every request has been answered.
func (of *load) run(ctx context.Context, perSecond int) {
	var under sync.WaitGroup
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	began := time.Now()
	for begun := 0; ; {
		select {
		case <-ctx.Done():
			under.Wait()
			return
		case <-ticker.C:
		}
		// What a late tick left out is sent with the next.
		for due := int(time.Since(began).Seconds() * float64(perSecond)); begun < due; begun++ {
			post := begun%2 == 1
			under.Go(func() { of.count(post, of.send(post)) })
		}
	}
}

func (of *load) send(post bool) error {
	method, sent := http.MethodGet, []byte(nil)
	if post {
		method, sent = http.MethodPost, []byte("body of a request")
	}
	request, err := http.NewRequest(method, of.url, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	if post {
		// The standard client would otherwise repeat a request itself.
		request.GetBody = nil
	}
	response, err := of.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d", response.StatusCode)
	case !bytes.Equal(body, sent):
		return errors.New("another body than sent")
	}
	return nil
}

func (of *load) count(post bool, err error) {
	of.mutex.Lock()
	defer of.mutex.Unlock()
	of.sent++
	if err != nil {
		of.failed++
		of.causes[fmt.Sprintf("post %t: %v", post, err)]++
	}
}
