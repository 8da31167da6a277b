package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
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
	// posts has what became of each POST, by its number.
	posts map[int]error
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
		url:    "http://" + addr + "/", stop: stop, ended: make(chan struct{}), causes: map[string]int{}, posts: map[int]error{},
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
			number := begun
			under.Go(func() {
				sent := time.Now()
				err := of.send(number)
				of.count(number, time.Since(sent), err)
			})
		}
	}
}

// reasonOnPage finds the reason on Weir's page of an error.
var reasonOnPage = regexp.MustCompile(`<dt>Reason</dt><dd>([a-z-]+)</dd>`)

// isPost is true of every other request.
func isPost(number int) bool { return number%2 == 1 }

func (of *load) send(number int) error {
	post := isPost(number)
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
		// An echo server says which it has carried out.
		request.Header.Set("Trial-Request", strconv.Itoa(number))
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
		reason := reasonOnPage.FindSubmatch(body)
		if reason == nil {
			reason = [][]byte{nil, bytes.TrimSpace(body)}
		}
		return fmt.Errorf("status %d, %s", response.StatusCode, reason[1])
	case !bytes.Equal(body, sent):
		return errors.New("another body than sent")
	}
	return nil
}

// judgePosts tells for each POST that failed whether a pod has carried it out, and counts those that were carried out twice, which must not be.
func (of *load) judgePosts(doneBy func(number int) []string) error {
	var failed, done, twice, lost int
	for _, number := range slices.Sorted(maps.Keys(of.posts)) {
		err, pods := of.posts[number], doneBy(number)
		switch {
		case len(pods) > 1:
			twice++
			fmt.Printf("# POST %d was carried out by %v\n", number, pods)
		case err == nil && len(pods) == 0:
			lost++
		}
		if err != nil {
			failed++
			done += min(len(pods), 1)
			fmt.Printf("# POST %d failed, carried out by %v: %v\n", number, pods, err)
		}
	}
	fmt.Printf("# POST: %d sent, %d failed, of which a pod had carried out %d and none %d; %d were carried out twice\n", len(of.posts), failed, done, failed-done, twice)
	if twice > 0 || lost > 0 {
		return fmt.Errorf("%d POSTs were carried out twice, %d answered without being carried out", twice, lost)
	}
	return nil
}

func (of *load) count(number int, took time.Duration, err error) {
	of.mutex.Lock()
	defer of.mutex.Unlock()
	of.sent++
	post := isPost(number)
	if post {
		of.posts[number] = err
	}
	if took > slowTime {
		of.slow++
	}
	if err != nil {
		of.failed++
		of.causes[fmt.Sprintf("%s, %v", map[bool]string{false: "GET", true: "POST"}[post], err)]++
	}
}
