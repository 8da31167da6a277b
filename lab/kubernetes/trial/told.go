package trial

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// toldWatch has when the API server told of each change of one object, as it tells Weir of it.
type toldWatch struct {
	times chan time.Time
	// The generations that Weir has accepted, if it is a route.
	accepted chan int64
}

// watchTold begins before the object is changed.
func (of *site) watchTold(ctx context.Context, object *unstructured.Unstructured) (*toldWatch, error) {
	events, err := of.applier.Watch(ctx, object)
	if err != nil {
		return nil, err
	}
	watching := &toldWatch{make(chan time.Time, 1), make(chan int64, 16)}
	go func() {
		defer close(watching.times)
		defer events.Stop()
		generation, accepted := int64(0), false
		for event := range events.ResultChan() {
			now := time.Now()
			changed, ok := event.Object.(*unstructured.Unstructured)
			if !ok || changed.GetName() != object.GetName() {
				continue
			}
			// A status that is written leaves the generation.
			if event.Type != watch.Modified || changed.GetGeneration() != generation {
				watching.times <- now
				accepted = false
			}
			generation = changed.GetGeneration()
			if !accepted && event.Type != watch.Deleted && isAccepted(changed) {
				accepted = true
				watching.accepted <- generation
			}
		}
	}()
	return watching, nil
}

// next returns when the API server told of the next change.
func (of *toldWatch) next(ctx context.Context) (time.Time, error) {
	select {
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	case told, open := <-of.times:
		if !open {
			return time.Time{}, errors.New("the API server ended the watch of the trial")
		}
		return told, nil
	}
}

// settle returns when the status of a route says that its next change was accepted: until then the API server has the write of the status to do.
func (of *toldWatch) settle(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-of.accepted:
		return nil
	}
}

// complete adds to the times of a change when the API server told of it.
func (of *toldWatch) complete(ctx context.Context, took *effect) error {
	told, err := of.next(ctx)
	took.told = told.Sub(took.began)
	return err
}
