// Posts KIB kibibytes to http://127.0.0.1:PORT/refuse, COUNT times, and counts what became of it: go run refused-upload.go PORT COUNT KIB
package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	count, _ := strconv.Atoi(os.Args[2])
	kib, _ := strconv.Atoi(os.Args[3])
	body := bytes.Repeat([]byte("x"), kib*1024)
	client := &http.Client{Timeout: 10 * time.Second}
	outcomes := map[string]int{}
	for range count {
		response, err := client.Post("http://127.0.0.1:"+os.Args[1]+"/refuse", "a/b", bytes.NewReader(body))
		if err != nil {
			outcomes["no answer"]++
			continue
		}
		_, err = io.ReadAll(response.Body)
		response.Body.Close()
		outcomes[fmt.Sprint(response.StatusCode, " ", err)]++
	}
	fmt.Println(os.Args[1:], outcomes)
}
