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
}

// watchTold begins before the object is changed.
func (of *site) watchTold(ctx context.Context, object *unstructured.Unstructured) (*toldWatch, error) {
	events, err := of.applier.Watch(ctx, object)
	if err != nil {
		return nil, err
	}
	watching := &toldWatch{make(chan time.Time, 1)}
	go func() {
		defer close(watching.times)
		defer events.Stop()
		generation := int64(0)
		for event := range events.ResultChan() {
			now := time.Now()
			changed, ok := event.Object.(*unstructured.Unstructured)
			if !ok || changed.GetName() != object.GetName() {
				continue
			}
			// A status that is written leaves the generation.
			if event.Type != watch.Modified || changed.GetGeneration() != generation {
				watching.times <- now
			}
			generation = changed.GetGeneration()
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

// complete adds to the times of a change when the API server told of it.
func (of *toldWatch) complete(ctx context.Context, took *effect) error {
	told, err := of.next(ctx)
	took.told = told.Sub(took.began)
	return err
}
