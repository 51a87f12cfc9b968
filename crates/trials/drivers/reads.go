// Cached reads of Neo4j's Go driver, as reads.py.
//
// usage: reads URI USER
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/neo4j/neo4j-go-driver/v6/neo4j"
)

const text = "MATCH (k:Key {id: $id}) RETURN k.value AS value"

var ctx = context.Background()

// read is one read with a session: the value of a key.
type read func(session neo4j.Session, id int) (any, error)

func single(result neo4j.Result, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	record, err := result.Single(ctx)
	if err != nil {
		return nil, err
	}
	return record.Values[0], nil
}

func work(id int) neo4j.ManagedTransactionWork {
	return func(tx neo4j.ManagedTransaction) (any, error) {
		return single(tx.Run(ctx, text, map[string]any{"id": id}))
	}
}

func autoCommit(session neo4j.Session, id int) (any, error) {
	return single(session.Run(ctx, text, map[string]any{"id": id}))
}

func query(driver neo4j.Driver, routing neo4j.ExecuteQueryConfigurationOption) func(int) (any, error) {
	return func(id int) (any, error) {
		parameters := map[string]any{"id": id}
		result, err := neo4j.ExecuteQuery(ctx, driver, text, parameters, neo4j.EagerResultTransformer, routing)
		if err != nil {
			return nil, err
		}
		return result.Records[0].Values[0], nil
	}
}

func loop(way string, read func(int) (any, error)) {
	for n := 1; ; n++ {
		began := time.Now()
		value, err := read(n % 10)
		took := time.Since(began)
		said := map[string]any{"at": began.UnixMilli(), "took": took.Milliseconds(), "way": way, "id": n % 10, "value": value}
		if err != nil {
			said["error"] = fmt.Sprintf("%T %.150s", err, err)
		}
		line, _ := json.Marshal(said)
		_, _ = os.Stdout.Write(append(line, '\n'))
		time.Sleep(time.Second - took)
	}
}

func main() {
	driver, err := neo4j.NewDriver(os.Args[1], neo4j.BasicAuth(os.Args[2], "any", ""))
	if err != nil {
		panic(err)
	}
	go loop("query read", query(driver, neo4j.ExecuteQueryWithReadersRouting()))
	go loop("query write", query(driver, neo4j.ExecuteQueryWithWritersRouting()))
	managed := map[neo4j.AccessMode]read{
		neo4j.AccessModeRead:  func(s neo4j.Session, id int) (any, error) { return s.ExecuteRead(ctx, work(id)) },
		neo4j.AccessModeWrite: func(s neo4j.Session, id int) (any, error) { return s.ExecuteWrite(ctx, work(id)) },
	}
	for access, name := range map[neo4j.AccessMode]string{neo4j.AccessModeRead: "read", neo4j.AccessModeWrite: "write"} {
		config := neo4j.SessionConfig{AccessMode: access}
		for way, read := range map[string]read{"managed " + name: managed[access], "auto-commit " + name: autoCommit} {
			go loop(way+", new session", func(id int) (any, error) {
				session := driver.NewSession(ctx, config)
				defer session.Close(ctx)
				return read(session, id)
			})
			session := driver.NewSession(ctx, config)
			go loop(way+", long-lived session", func(id int) (any, error) { return read(session, id) })
		}
	}
	select {}
}
