package node

import (
	"strconv"
	"strings"
	"sync"
)

// doneRequests are the POSTs that echo servers say they have carried out, by the number that the load gave them. They outlive the pods.
type doneRequests struct {
	mutex sync.Mutex
	pods  map[int][]string
}

// note takes a line of a container, if it says that.
func (of *doneRequests) note(pod, text string) bool {
	after, found := strings.CutPrefix(text, "done ")
	number, err := strconv.Atoi(after)
	if !found || err != nil {
		return false
	}
	of.mutex.Lock()
	defer of.mutex.Unlock()
	if of.pods == nil {
		of.pods = map[int][]string{}
	}
	of.pods[number] = append(of.pods[number], pod)
	return true
}

// DoneBy names the pods that have carried out a POST: none, one, or several if it was repeated wrongly.
func (agent *Agent) DoneBy(number int) []string {
	agent.done.mutex.Lock()
	defer agent.done.mutex.Unlock()
	return agent.done.pods[number]
}
