import static org.neo4j.driver.SessionConfig.builder;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.neo4j.driver.AccessMode;
import org.neo4j.driver.AuthTokens;
import org.neo4j.driver.Bookmark;
import org.neo4j.driver.Driver;
import org.neo4j.driver.GraphDatabase;
import org.neo4j.driver.NotificationSeverity; // since 5
import org.neo4j.driver.QueryConfig; // since 5
import org.neo4j.driver.Record;
import org.neo4j.driver.Result;
import org.neo4j.driver.RoutingControl; // since 5
import org.neo4j.driver.Session;
import org.neo4j.driver.SessionConfig;
import org.neo4j.driver.SimpleQueryRunner;
import org.neo4j.driver.Transaction;
import org.neo4j.driver.TransactionConfig;
import org.neo4j.driver.exceptions.Neo4jException;
import org.neo4j.driver.exceptions.RetryableException;
import org.neo4j.driver.summary.ResultSummary;
import org.neo4j.driver.types.Node;
import org.neo4j.driver.types.Relationship;

/**
 * What an application sees through Neo4j's Java driver, as lines of JSON: the same lines from Neo4j and from Hopcache.
 *
 * <p>usage: Answers URI USER PASSWORD LABEL STATEMENTS
 *
 * <p>Each line is [name, what was seen]. Times, agents, bookmarks and element ids are left out: they differ by
 * themselves. Drivers before 5 do not have what the lines with "since 5" call.
 */
public final class Answers {
    private static final Map<String, Object> PARAMETERS = new HashMap<>();
    private static String label;

    private interface Work {
        Object run();
    }

    public static void main(String[] args) throws Exception {
        label = args[3];
        PARAMETERS.put("byte", new byte[] {0, 1, -1});
        PARAMETERS.put("text", "é");
        PARAMETERS.put("list", Arrays.asList(1, "x", null));
        PARAMETERS.put("map", Map.of("a", 1.5));
        PARAMETERS.put("none", null);
        PARAMETERS.put("float", 1e300);
        List<String> statements = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(args[4]))) {
            statements.add(line.replace("LABEL", label));
        }
        wholeDriver(args[0], args[1], args[2], statements);
    }

    private static void wholeDriver(String uri, String user, String password, List<String> statements) {
        try (Driver driver = GraphDatabase.driver(uri, AuthTokens.basic(user, password))) {
            driver.verifyConnectivity();
            try (Session session = driver.session()) {
                ResultSummary summary = session.run("RETURN 1 AS one").consume();
                show("agent", summary.server().agent().startsWith("Neo4j/5"));
                show("protocol", summary.server().protocolVersion());
                session.run("UNWIND range(1, 5) AS i CREATE (:" + label + " {n: i, name: 'n' + i})").consume();
                String pairs = "MATCH (a:" + label + "), (b:" + label + ") WHERE b.n = a.n + 1 ";
                session.run(pairs + "CREATE (a)-[:NEXT {w: a.n}]->(b)").consume();
                autoCommit(session, statements);
            }
            inPieces(driver);
            transactions(driver);
            QueryConfig reads = QueryConfig.builder().withRouting(RoutingControl.READ).build(); // since 5
            for (String time : List.of("first", "second")) { // since 5
                String text = "MATCH (n:" + label + ") RETURN count(n) AS n"; // since 5
                var result = driver.executableQuery(text).withConfig(reads).execute(); // since 5
                long n = result.records().get(0).get("n").asLong(); // since 5
                show(time + ": executableQuery", List.of(result.keys(), n, summary(result.summary()))); // since 5
            } // since 5
            SessionConfig quiet = SessionConfig.defaultConfig();
            quiet = builder().withMinimumNotificationSeverity(NotificationSeverity.OFF).build(); // since 5
            try (Session session = driver.session(quiet)) {
                autoCommit(session, List.of("MATCH (n:NoSuchLabelAtAll) RETURN n"));
                session.run("MATCH (n) WHERE n:" + label + " OR n:" + label + "Tx DETACH DELETE n").consume();
            }
        }
        attempt("a wrong password", () -> {
            try (Driver driver = GraphDatabase.driver(uri, AuthTokens.basic(user, "not the password"))) {
                driver.verifyConnectivity();
                return "let in";
            }
        });
    }

    private static void autoCommit(Session session, List<String> statements) {
        for (String text : statements) {
            for (String time : List.of("first", "second")) {
                attempt(time + ": " + text, () -> {
                    Result result = session.run(text, PARAMETERS);
                    List<String> keys = result.keys();
                    List<Object> rows = new ArrayList<>();
                    for (Record row : result.list()) {
                        rows.add(plain(row.values()));
                    }
                    Object shown = rows.size() < 50 ? rows : List.of(rows.size(), rows.get(rows.size() - 1));
                    return List.of(keys, shown, summary(result.consume()));
                });
            }
        }
    }

    private static void inPieces(Driver driver) {
        try (Session session = driver.session(builder().withFetchSize(7).build())) {
            attempt("pieces, the rest dropped", () -> {
                Result result = session.run("UNWIND range(1, 40) AS n RETURN n");
                List<Object> rows = new ArrayList<>();
                while (rows.size() < 10) {
                    rows.add(result.next().get("n").asLong());
                }
                return List.of(rows, result.consume().queryType().name());
            });
            try (Transaction tx = session.beginTransaction()) {
                attempt("two open results", () -> {
                    Result one = tx.run("UNWIND range(1, 30) AS n RETURN n");
                    Result two = tx.run("UNWIND range(1, 20) AS n RETURN n * 2 AS n");
                    List<Object> pairs = new ArrayList<>();
                    while (one.hasNext() && two.hasNext()) {
                        pairs.add(List.of(one.next().get("n").asLong(), two.next().get("n").asLong()));
                    }
                    return pairs;
                });
                tx.commit();
            }
        }
    }

    private static Object count(SimpleQueryRunner tx) {
        return tx.run("MATCH (n:" + label + "Tx) RETURN count(n) AS n").single().get("n").asLong();
    }

    private static Object create(SimpleQueryRunner tx) {
        return summary(tx.run("CREATE (:" + label + "Tx)").consume());
    }

    private static void explicit(Session session, String name, int writes, boolean commits) {
        try (Transaction tx = session.beginTransaction()) {
            attempt(name + ": before the write", () -> count(tx));
            for (int n = 0; n < writes; n++) {
                attempt(name + ": write", () -> create(tx));
            }
            attempt(name + ": behind the write", () -> count(tx));
            if (commits) {
                tx.commit();
            } else {
                tx.rollback();
            }
        }
    }

    private static void transactions(Driver driver) {
        Iterable<Bookmark> bookmarks;
        try (Session session = driver.session()) {
            attempt("managed read", () -> session.executeRead(Answers::count));
            attempt("managed read again", () -> session.executeRead(Answers::count));
            explicit(session, "rolled back", 1, false);
            attempt("behind a rollback", () -> session.executeRead(Answers::count));
            explicit(session, "committed", 2, true);
            attempt("behind a commit", () -> session.executeRead(Answers::count));
            attempt("managed write", () -> session.executeWrite(Answers::create));
            attempt("behind a managed write", () -> session.executeRead(Answers::count));
            bookmarks = session.lastBookmarks();
            show("has a bookmark", bookmarks.iterator().hasNext());
        }
        reads(driver, "with a bookmark", builder().withBookmarks(bookmarks).build());
        Bookmark garbage = Bookmark.from("garbage");
        reads(driver, "a garbage bookmark", builder().withBookmarks(garbage).build());
        reads(driver, "no such database", builder().withDatabase("nosuchdatabase").build());
        reads(driver, "the database by its name", builder().withDatabase("neo4j").build());
        reads(driver, "as another user", builder().withImpersonatedUser("somebody").build());
        try (Session session = driver.session()) {
            attempt("a write in a managed read", () -> session.executeRead(Answers::create));
            attempt("a syntax error", () -> session.executeRead(tx -> tx.run("RETRUN 1").consume()));
            TransactionConfig config = TransactionConfig.builder()
                    .withTimeout(Duration.ofSeconds(5))
                    .withMetadata(Map.of("app", "test"))
                    .build();
            attempt("metadata and a timeout", () -> session.executeRead(Answers::count, config));
        }
        try (Session session = driver.session(builder().withDefaultAccessMode(AccessMode.READ).build())) {
            attempt("a write in a read session", () -> summary(session.run("CREATE (:" + label + "Tx)").consume()));
        }
    }

    private static void reads(Driver driver, String name, SessionConfig config) {
        try (Session session = driver.session(config)) {
            attempt(name, () -> session.executeRead(Answers::count));
        }
    }

    private static Object summary(ResultSummary summary) {
        Map<String, Object> seen = new TreeMap<>();
        seen.put("type", summary.queryType() == null ? null : summary.queryType().name());
        seen.put("database", summary.database().name());
        seen.put("counters", summary.counters().toString());
        seen.put("plan", summary.hasPlan() ? summary.plan().operatorType() : "");
        TreeSet<String> notes = new TreeSet<>();
        summary.notifications().forEach(note -> notes.add(note.code() + " " + note.description()));
        seen.put("notifications", List.copyOf(notes));
        List<Object> statuses = new ArrayList<>();
        for (var status : summary.gqlStatusObjects()) { // since 5
            statuses.add(status.gqlStatus() + " " + status.statusDescription()); // since 5
        } // since 5
        seen.put("statuses", statuses);
        return seen;
    }

    /** A value with everything that a driver shows of it, but ids. */
    private static Object plain(Object value) {
        if (value instanceof org.neo4j.driver.Value) {
            return plain(((org.neo4j.driver.Value) value).asObject());
        }
        if (value instanceof Node) {
            TreeSet<String> labels = new TreeSet<>();
            ((Node) value).labels().forEach(labels::add);
            return List.of("node", List.copyOf(labels), plain(((Node) value).asMap()));
        }
        if (value instanceof Relationship) {
            Relationship relationship = (Relationship) value;
            return List.of("relationship", relationship.type(), plain(relationship.asMap()));
        }
        if (value instanceof org.neo4j.driver.types.Path) {
            List<Object> parts = new ArrayList<>();
            ((org.neo4j.driver.types.Path) value).nodes().forEach(node -> parts.add(plain(node)));
            ((org.neo4j.driver.types.Path) value).relationships().forEach(each -> parts.add(plain(each)));
            return parts;
        }
        if (value instanceof List) {
            List<Object> items = new ArrayList<>();
            ((List<?>) value).forEach(item -> items.add(plain(item)));
            return items;
        }
        if (value instanceof Map) {
            Map<String, Object> fields = new TreeMap<>();
            ((Map<?, ?>) value).forEach((name, field) -> fields.put((String) name, plain(field)));
            return fields;
        }
        if (value instanceof byte[]) {
            return List.of("bytes", Arrays.toString((byte[]) value));
        }
        if (value == null || value instanceof Boolean || value instanceof Long || value instanceof String) {
            return value;
        }
        return List.of(value.getClass().getSimpleName(), value.toString());
    }

    private static void attempt(String name, Work work) {
        Object seen;
        try {
            seen = work.run();
        } catch (Neo4jException error) {
            Map<String, Object> told = new TreeMap<>();
            told.put("class", error.getClass().getSimpleName());
            told.put("code", error.code());
            told.put("message", error.getMessage());
            told.put("gql", error.gqlStatus() + " " + error.statusDescription()); // since 5
            told.put("retryable", error instanceof RetryableException);
            seen = told;
        }
        show(name, seen);
    }

    private static void show(String name, Object seen) {
        StringBuilder line = new StringBuilder();
        json(line, Arrays.asList(name, seen));
        System.out.println(line);
    }

    private static void json(StringBuilder out, Object value) {
        if (value instanceof List) {
            String between = "[";
            for (Object item : (List<?>) value) {
                out.append(between);
                json(out, item);
                between = ",";
            }
            out.append(between.equals("[") ? "[]" : "]");
        } else if (value instanceof Map) {
            List<Object> pairs = new ArrayList<>();
            ((Map<?, ?>) value).forEach((name, field) -> pairs.add(Arrays.asList(name, field)));
            json(out, pairs);
        } else if (value == null || value instanceof Boolean || value instanceof Number) {
            out.append(value);
        } else {
            text(out, value.toString());
        }
    }

    private static void text(StringBuilder out, String text) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\' || c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
