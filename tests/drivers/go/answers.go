// What an application sees through Neo4j's Go driver, as lines of JSON: the same lines from Neo4j and from Hopcache.
//
// usage: answers URI USER PASSWORD LABEL STATEMENTS
//
// Each line is [name, what was seen]. Times, agents, bookmarks and element ids are left out: they differ by themselves.
// Older drivers lack what the lines with "since 5" call, and have what the lines with "before 5" say (see *.sed).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/neo4j/neo4j-go-driver/v6/neo4j"
	"github.com/neo4j/neo4j-go-driver/v6/neo4j/notifications" // since 5
)

var (
	ctx   = context.Background()
	label string
)

// seen is what was seen: anything that JSON can show.
type seen = any

func show(name string, what seen) {
	line, err := json.Marshal([]any{name, what})
	must(err)
	fmt.Println(string(line))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// plain is a value with everything that a driver shows of it, but ids.
func plain(value any) any {
	switch value := value.(type) {
	case nil, bool, string:
		return value
	case int64:
		return strconv.FormatInt(value, 10)
	case float64:
		return []any{"float", strconv.FormatFloat(value, 'g', -1, 64)}
	case []byte:
		return []any{"bytes", fmt.Sprintf("%x", value)}
	case []any:
		items := make([]any, len(value))
		for i, item := range value {
			items[i] = plain(item)
		}
		return items
	case map[string]any:
		fields := make(map[string]any, len(value))
		for name, item := range value {
			fields[name] = plain(item)
		}
		return fields
	case neo4j.Node:
		sort.Strings(value.Labels)
		return []any{"node", value.Labels, plain(value.Props)}
	case neo4j.Relationship:
		return []any{"relationship", value.Type, plain(value.Props)}
	case neo4j.Path:
		parts := []any{"path"}
		for _, node := range value.Nodes {
			parts = append(parts, plain(node))
		}
		for _, relationship := range value.Relationships {
			parts = append(parts, plain(relationship))
		}
		return parts
	case time.Time:
		return []any{"datetime", value.Format(time.RFC3339Nano), value.Location().String()}
	case neo4j.Date:
		return []any{"date", time.Time(value).Format("2006-01-02")}
	case neo4j.OffsetTime:
		return []any{"time", time.Time(value).Format("15:04:05.999999999Z07:00")}
	case neo4j.LocalTime:
		return []any{"local time", time.Time(value).Format("15:04:05.999999999")}
	case neo4j.LocalDateTime:
		return []any{"local datetime", time.Time(value).Format("2006-01-02T15:04:05.999999999")}
	default:
		return []any{fmt.Sprintf("%T", value), fmt.Sprint(value)}
	}
}

func summaryOf(summary neo4j.ResultSummary) seen {
	codes := []string{}
	for _, note := range summary.Notifications() {
		codes = append(codes, note.Code()+" "+note.Description())
	}
	sort.Strings(codes)
	statuses := []any{}
	for _, status := range summary.GqlStatusObjects() { // since 5
		statuses = append(statuses, []any{status.GqlStatus(), status.StatusDescription()}) // since 5
	} // since 5
	plan := ""
	if summary.Plan() != nil {
		plan = summary.Plan().Operator()
	}
	c := summary.Counters()
	counters := []any{c.ContainsUpdates(), c.NodesCreated(), c.NodesDeleted(), c.RelationshipsCreated(),
		c.RelationshipsDeleted(), c.PropertiesSet(), c.LabelsAdded(), c.ContainsSystemUpdates()}
	return map[string]any{"type": summary.QueryType().String(), "database": summary.Database().Name(),
		"counters": counters, "notifications": codes, "statuses": statuses, "plan": plan}
}

func errorOf(err error) seen {
	var failure *neo4j.Neo4jError
	if errors.As(err, &failure) {
		seen := map[string]any{"code": failure.Code, "message": failure.Msg, "retryable": neo4j.IsRetryable(err)}
		seen["gql"] = []any{failure.GqlStatus, failure.GqlStatusDescription} // since 5
		return seen
	}
	return []any{fmt.Sprintf("%T", err), neo4j.IsRetryable(err)}
}

func attempt(name string, work func() (seen, error)) {
	what, err := work()
	if err != nil {
		what = errorOf(err)
	}
	show(name, what)
}

var parameters = map[string]any{
	"byte": []byte{0, 1, 255}, "text": "é", "list": []any{int64(1), "x", nil}, "map": map[string]any{"a": 1.5},
	"none": nil, "float": 1e300,
}

// run is a statement to its end: its keys, its rows and its summary.
func run(runner func(string, map[string]any) (neo4j.Result, error), text string) (seen, error) {
	result, err := runner(text, parameters)
	if err != nil {
		return nil, err
	}
	keys, err := result.Keys()
	if err != nil {
		return nil, err
	}
	rows := []any{}
	for result.Next(ctx) {
		rows = append(rows, plain(result.Record().Values))
	}
	if err := result.Err(); err != nil {
		return nil, err
	}
	summary, err := result.Consume(ctx)
	if err != nil {
		return nil, err
	}
	if len(rows) >= 50 {
		rows = []any{len(rows), rows[len(rows)-1]}
	}
	return []any{keys, rows, summaryOf(summary)}, nil
}

func autoCommit(session neo4j.Session, statements []string) {
	for _, text := range statements {
		for _, time := range []string{"first", "second"} {
			attempt(time+": "+text, func() (seen, error) {
				return run(func(text string, parameters map[string]any) (neo4j.Result, error) {
					return session.Run(ctx, text, parameters)
				}, text)
			})
		}
	}
}

func inPieces(driver neo4j.Driver) {
	session := driver.NewSession(ctx, neo4j.SessionConfig{FetchSize: 7})
	defer session.Close(ctx)
	attempt("pieces, the rest dropped", func() (seen, error) {
		result, err := session.Run(ctx, "UNWIND range(1, 40) AS n RETURN n", nil)
		if err != nil {
			return nil, err
		}
		rows := []any{}
		for len(rows) < 10 && result.Next(ctx) {
			rows = append(rows, result.Record().Values[0])
		}
		summary, err := result.Consume(ctx)
		if err != nil {
			return nil, err
		}
		return []any{rows, summary.QueryType().String()}, nil
	})
	tx, err := session.BeginTransaction(ctx)
	must(err)
	attempt("two open results", func() (seen, error) {
		one, err := tx.Run(ctx, "UNWIND range(1, 30) AS n RETURN n", nil)
		if err != nil {
			return nil, err
		}
		two, err := tx.Run(ctx, "UNWIND range(1, 20) AS n RETURN n * 2 AS n", nil)
		if err != nil {
			return nil, err
		}
		pairs := []any{}
		for one.Next(ctx) && two.Next(ctx) {
			pairs = append(pairs, one.Record().Values[0], two.Record().Values[0])
		}
		return pairs, errors.Join(one.Err(), two.Err())
	})
	must(tx.Commit(ctx))
}

func count(tx neo4j.ManagedTransaction) (any, error) {
	result, err := tx.Run(ctx, "MATCH (n:"+label+"Tx) RETURN count(n) AS n", nil)
	if err != nil {
		return nil, err
	}
	record, err := result.Single(ctx)
	if err != nil {
		return nil, err
	}
	return record.Values[0], nil
}

func create(tx neo4j.ManagedTransaction) (any, error) {
	result, err := tx.Run(ctx, "CREATE (:"+label+"Tx)", nil)
	if err != nil {
		return nil, err
	}
	summary, err := result.Consume(ctx)
	if err != nil {
		return nil, err
	}
	return summaryOf(summary), nil
}

// explicit is a transaction that its caller ends.
func explicit(session neo4j.Session, name string, writes int, commits bool) {
	tx, err := session.BeginTransaction(ctx)
	must(err)
	attempt(name+": before the write", func() (seen, error) { return count(tx) })
	for range writes {
		attempt(name+": write", func() (seen, error) { return create(tx) })
	}
	attempt(name+": behind the write", func() (seen, error) { return count(tx) })
	if commits {
		must(tx.Commit(ctx))
	} else {
		must(tx.Rollback(ctx))
	}
}

func transactions(driver neo4j.Driver) {
	session := driver.NewSession(ctx, neo4j.SessionConfig{})
	defer session.Close(ctx)
	read := func(name string) { attempt(name, func() (seen, error) { return session.ExecuteRead(ctx, count) }) }
	read("managed read")
	read("managed read again")
	explicit(session, "rolled back", 1, false)
	read("behind a rollback")
	explicit(session, "committed", 2, true)
	read("behind a commit")
	attempt("managed write", func() (seen, error) { return session.ExecuteWrite(ctx, create) })
	read("behind a managed write")
	bookmarks := session.LastBookmarks()                                   // since 5
	show("has a bookmark", len(neo4j.BookmarksToRawValues(bookmarks)) > 0) // since 5
	// before 5: bookmarks := []string{session.LastBookmark()}
	with := func(name string, config neo4j.SessionConfig, work func(neo4j.Session) (seen, error)) {
		session := driver.NewSession(ctx, config)
		defer session.Close(ctx)
		attempt(name, func() (seen, error) { return work(session) })
	}
	reads := func(session neo4j.Session) (seen, error) { return session.ExecuteRead(ctx, count) }
	with("with a bookmark", neo4j.SessionConfig{Bookmarks: bookmarks}, reads)
	garbage := neo4j.BookmarksFromRawValues("garbage") // since 5
	// before 5: garbage := []string{"garbage"}
	with("a garbage bookmark", neo4j.SessionConfig{Bookmarks: garbage}, reads)
	with("no such database", neo4j.SessionConfig{DatabaseName: "nosuchdatabase"}, reads)
	with("the database by its name", neo4j.SessionConfig{DatabaseName: "neo4j"}, reads)
	with("as another user", neo4j.SessionConfig{ImpersonatedUser: "somebody"}, reads)
	with("a write in a managed read", neo4j.SessionConfig{}, func(session neo4j.Session) (seen, error) {
		return session.ExecuteRead(ctx, create)
	})
	with("a write in a read session", neo4j.SessionConfig{AccessMode: neo4j.AccessModeRead}, func(session neo4j.Session) (seen, error) {
		result, err := session.Run(ctx, "CREATE (:"+label+"Tx)", nil)
		if err != nil {
			return nil, err
		}
		_, err = result.Consume(ctx)
		return nil, err
	})
	with("a syntax error in a transaction", neo4j.SessionConfig{}, func(session neo4j.Session) (seen, error) {
		return session.ExecuteRead(ctx, func(tx neo4j.ManagedTransaction) (any, error) {
			_, err := tx.Run(ctx, "RETRUN 1", nil)
			return nil, err
		})
	})
	options := []func(*neo4j.TransactionConfig){
		neo4j.WithTxTimeout(5 * time.Second), neo4j.WithTxMetadata(map[string]any{"app": "test"}),
	}
	with("metadata and a timeout", neo4j.SessionConfig{}, func(session neo4j.Session) (seen, error) {
		return session.ExecuteRead(ctx, count, options...)
	})
}

// executeQuery is the driver's way to read in one call.
func executeQuery(driver neo4j.Driver) { // since 5
	text, reads := "MATCH (n:"+label+") RETURN count(n) AS n", neo4j.ExecuteQueryWithReadersRouting() // since 5
	for _, time := range []string{"first", "second"} {                                                // since 5
		result, err := neo4j.ExecuteQuery(ctx, driver, text, nil, neo4j.EagerResultTransformer, reads) // since 5
		must(err)                                                                                      // since 5
		rows := plain(result.Records[0].Values)                                                        // since 5
		show(time+": ExecuteQuery", []any{result.Keys, rows, summaryOf(result.Summary)})               // since 5
	} // since 5
} // since 5

func wholeDriver(uri, user, password string, statements []string) {
	driver, err := neo4j.NewDriver(uri, neo4j.BasicAuth(user, password, ""))
	must(err)
	defer driver.Close(ctx)
	must(driver.VerifyConnectivity(ctx))
	session := driver.NewSession(ctx, neo4j.SessionConfig{})
	query := func(text string) neo4j.ResultSummary {
		result, err := session.Run(ctx, text, nil)
		must(err)
		summary, err := result.Consume(ctx)
		must(err)
		return summary
	}
	server := query("RETURN 1").Server()
	show("agent", strings.HasPrefix(server.Agent(), "Neo4j/5"))
	show("protocol", []int{server.ProtocolVersion().Major, server.ProtocolVersion().Minor})
	query("UNWIND range(1, 5) AS i CREATE (:" + label + " {n: i, name: 'n' + i})")
	query("MATCH (a:" + label + "), (b:" + label + ") WHERE b.n = a.n + 1 CREATE (a)-[:NEXT {w: a.n}]->(b)")
	autoCommit(session, statements)
	inPieces(driver)
	transactions(driver)
	executeQuery(driver) // since 5
	query("MATCH (n) WHERE n:" + label + " OR n:" + label + "Tx DETACH DELETE n")
	must(session.Close(ctx))
	quietly := neo4j.SessionConfig{}
	quietly.NotificationsMinSeverity = notifications.DisabledLevel // since 5
	quiet := driver.NewSession(ctx, quietly)
	autoCommit(quiet, []string{"MATCH (n:NoSuchLabelAtAll) RETURN n"})
	must(quiet.Close(ctx))
	wrong, err := neo4j.NewDriver(uri, neo4j.BasicAuth(user, "not the password", ""))
	must(err)
	attempt("a wrong password", func() (seen, error) { return nil, wrong.VerifyConnectivity(ctx) })
	must(wrong.Close(ctx))
}

func main() {
	uri, user, password := os.Args[1], os.Args[2], os.Args[3]
	label = os.Args[4]
	text, err := os.ReadFile(os.Args[5])
	must(err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for place, line := range lines {
		lines[place] = strings.ReplaceAll(line, "LABEL", label)
	}
	wholeDriver(uri, user, password, lines)
}
