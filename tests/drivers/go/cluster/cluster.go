// Transactions while nodes leave, die and come: what the driver's own retries did not absorb is an error. As
// python/cluster.py. For the newest driver alone.
//
// usage: cluster URI USER PASSWORD LABEL
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"sync"
	"time"

	"github.com/neo4j/neo4j-go-driver/v6/neo4j"
)

var (
	ctx     = context.Background()
	lock    sync.Mutex
	done    int
	over    bool
	errors  = []string{}
	servers = map[string]bool{}
)

func main() {
	half, clients := number("HOPCACHE_TEST_TRANSACTIONS", 60), number("HOPCACHE_TEST_DRIVER_THREADS", 4)
	driver, err := neo4j.NewDriver(os.Args[1], neo4j.BasicAuth(os.Args[2], os.Args[3], ""))
	if err != nil {
		panic(err)
	}
	began := time.Now()
	var working sync.WaitGroup
	for who := range clients {
		working.Add(1)
		go func() {
			defer working.Done()
			work(driver, who)
		}()
	}
	until(half)
	fmt.Println("begun")
	_, _ = io.Copy(io.Discard, os.Stdin)
	soFar, _ := state()
	until(soFar + half)
	lock.Lock()
	over = true
	lock.Unlock()
	working.Wait()
	names := []string{}
	for name := range servers {
		names = append(names, name)
	}
	sort.Strings(names)
	line, err := json.Marshal(map[string]any{
		"done": done, "per_s": float64(done) / time.Since(began).Seconds(), "clients": clients, "errors": errors, "servers": names,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
	_ = driver.Close(ctx)
}

func work(driver neo4j.Driver, who int) {
	for n := 1; ; n++ {
		if _, isOver := state(); isOver {
			return
		}
		read := fmt.Sprintf("RETURN 'read %d'", n%7)
		write := fmt.Sprintf("MERGE (n:%s {who: %d}) SET n.n = %d", os.Args[4], who, n)
		seen, err := both(driver, read, write)
		lock.Lock()
		if err == nil {
			done += 2
			for _, server := range seen {
				servers[server] = true
			}
		} else if errors = append(errors, err.Error()); len(errors) > 20 {
			over = true
		}
		lock.Unlock()
	}
}

func both(driver neo4j.Driver, read, write string) ([]string, error) {
	session := driver.NewSession(ctx, neo4j.SessionConfig{})
	defer func() { _ = session.Close(ctx) }()
	run := func(statement string) neo4j.ManagedTransactionWork {
		return func(tx neo4j.ManagedTransaction) (any, error) {
			result, err := tx.Run(ctx, statement, nil)
			if err != nil {
				return nil, err
			}
			summary, err := result.Consume(ctx)
			if err != nil {
				return nil, err
			}
			return summary.Server().Address(), nil
		}
	}
	first, err := session.ExecuteRead(ctx, run(read))
	if err != nil {
		return nil, err
	}
	second, err := session.ExecuteWrite(ctx, run(write))
	if err != nil {
		return nil, err
	}
	return []string{first.(string), second.(string)}, nil
}

func state() (int, bool) {
	lock.Lock()
	defer lock.Unlock()
	return done, over
}

func until(count int) {
	for {
		if soFar, isOver := state(); soFar >= count || isOver {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func number(name string, usual int) int {
	if given, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return given
	}
	return usual
}
