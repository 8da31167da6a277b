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
	stop   context.CancelFunc
	ended  chan struct{}

	mutex  sync.Mutex
	sent   int
	failed int
	slow   int
	// causes has how often each kind of failure came.
	causes map[string]int
}

// requestTimeout makes a request that hangs a failure.
const requestTimeout = 10 * time.Second

// slowTime is that of an answer that users notice.
const slowTime = time.Second

// startLoad begins to send.
func startLoad(ctx context.Context, addr string, perSecond int) *load {
	loaded, stop := context.WithCancel(ctx)
	begun := &load{
		client: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 256, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext}},
		url:    "http://" + addr + "/", stop: stop, ended: make(chan struct{}), causes: map[string]int{},
	}
	go func() {
		begun.run(loaded, perSecond)
		close(begun.ended)
	}()
	return begun
}

// end returns when every request has been answered, with an error if some failed.
func (of *load) end() error {
	of.stop()
	<-of.ended
	fmt.Printf("# load: %d requests, %d failed, %d took more than %s\n", of.sent, of.failed, of.slow, slowTime)
	for cause, count := range of.causes {
		fmt.Printf("# %d times: %s\n", count, cause)
	}
	if of.failed > 0 {
		return fmt.Errorf("%d of %d requests failed", of.failed, of.sent)
	}
	return nil
}

func (of *load) counts() (sent, failed int) {
	of.mutex.Lock()
	defer of.mutex.Unlock()
	return of.sent, of.failed
}

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
			under.Go(func() {
				sent := time.Now()
				err := of.send(post)
				of.count(post, time.Since(sent), err)
			})
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
		return fmt.Errorf("status %d, %s", response.StatusCode, bytes.TrimSpace(body))
	case !bytes.Equal(body, sent):
		return errors.New("another body than sent")
	}
	return nil
}

func (of *load) count(post bool, took time.Duration, err error) {
	of.mutex.Lock()
	defer of.mutex.Unlock()
	of.sent++
	if took > slowTime {
		of.slow++
	}
	if err != nil {
		of.failed++
		of.causes[fmt.Sprintf("post %t: %v", post, err)]++
	}
}
