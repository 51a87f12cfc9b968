import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.IntToLongFunction;
import org.neo4j.driver.AccessMode;
import org.neo4j.driver.AuthTokens;
import org.neo4j.driver.Driver;
import org.neo4j.driver.GraphDatabase;
import org.neo4j.driver.QueryConfig;
import org.neo4j.driver.RoutingControl;
import org.neo4j.driver.Session;
import org.neo4j.driver.SessionConfig;
import org.neo4j.driver.SimpleQueryRunner;
import org.neo4j.driver.exceptions.Neo4jException;

/**
 * Cached reads of Neo4j's Java driver, as reads.py.
 *
 * <p>usage: Reads URI USER
 */
public final class Reads {
    private static final String TEXT = "MATCH (k:Key {id: $id}) RETURN k.value AS value";
    private static final Map<String, Way> WAYS = Map.of(
            "managed read", new Way(AccessMode.READ, (session, id) -> session.executeRead(tx -> one(tx, id))),
            "managed write", new Way(AccessMode.WRITE, (session, id) -> session.executeWrite(tx -> one(tx, id))),
            "auto-commit read", new Way(AccessMode.READ, Reads::one),
            "auto-commit write", new Way(AccessMode.WRITE, Reads::one));

    private interface Read {
        long of(Session session, int id);
    }

    private record Way(AccessMode access, Read read) {}

    private static long one(SimpleQueryRunner runner, int id) {
        return runner.run(TEXT, Map.of("id", id)).single().get("value").asLong();
    }

    private static long query(Driver driver, RoutingControl routing, int id) {
        QueryConfig config = QueryConfig.builder().withRouting(routing).build();
        var result = driver.executableQuery(TEXT).withParameters(Map.of("id", id)).withConfig(config).execute();
        return result.records().get(0).get("value").asLong();
    }

    public static void main(String[] args) {
        Driver driver = GraphDatabase.driver(args[0], AuthTokens.basic(args[1], "any"));
        Map<String, IntToLongFunction> loops = new LinkedHashMap<>();
        loops.put("query read", id -> query(driver, RoutingControl.READ, id));
        loops.put("query write", id -> query(driver, RoutingControl.WRITE, id));
        WAYS.forEach((name, way) -> {
            SessionConfig config = SessionConfig.builder().withDefaultAccessMode(way.access()).build();
            loops.put(name + ", new session", id -> {
                try (Session session = driver.session(config)) {
                    return way.read().of(session, id);
                }
            });
            Session session = driver.session(config);
            loops.put(name + ", long-lived session", id -> way.read().of(session, id));
        });
        loops.forEach((name, read) -> new Thread(() -> loop(name, read)).start());
    }

    private static void loop(String way, IntToLongFunction read) {
        for (int n = 1; ; n++) {
            long began = System.currentTimeMillis();
            String said;
            try {
                said = "\"value\":" + read.applyAsLong(n % 10);
            } catch (RuntimeException error) {
                String code = error instanceof Neo4jException failure ? failure.code() + " " : "";
                String text = code + error.getClass().getSimpleName() + ": " + error.getMessage();
                said = "\"error\":\"" + text.replaceAll("[^ -~]|[\"\\\\]", " ") + "\"";
            }
            long took = System.currentTimeMillis() - began;
            System.out.println("{\"at\":" + began + ",\"took\":" + took + ",\"way\":\"" + way + "\",\"id\":" + n % 10 + "," + said + "}");
            try {
                Thread.sleep(Math.max(0, 1000 - took));
            } catch (InterruptedException stopped) {
                return;
            }
        }
    }
}
