import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.neo4j.driver.AccessMode;
import org.neo4j.driver.AuthTokens;
import org.neo4j.driver.GraphDatabase;
import org.neo4j.driver.Session;
import org.neo4j.driver.SessionConfig;
import org.neo4j.driver.TransactionConfig;
import org.neo4j.driver.summary.ResultSummary;

/**
 * Hit or miss, as an application sees it through Neo4j's Java driver: as javascript/note.js.
 *
 * <p>usage: Note URI USER PASSWORD STATEMENT
 */
public class Note {
    private interface Way {
        ResultSummary run(Session session, String text);
    }

    private static final TransactionConfig ASKED =
            TransactionConfig.builder().withMetadata(Map.of("hopcache", Map.of("notify", true))).build();

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    private static void show(String way, ResultSummary summary) {
        String notes = summary.notifications().stream()
                .map(note -> "[" + quoted(note.code()) + "," + quoted(note.description()) + "]")
                .collect(Collectors.joining(","));
        System.out.println("[" + quoted(way) + ",[" + notes + "]," + summary.resultAvailableAfter(TimeUnit.MILLISECONDS) + "]");
    }

    public static void main(String[] args) {
        Map<String, Way> ways = Map.of(
                "session.run", (session, text) -> session.run(text, ASKED).consume(),
                "executeRead", (session, text) -> session.executeRead(tx -> tx.run(text).consume(), ASKED),
                "unasked", (session, text) -> session.run(text).consume());
        SessionConfig reading = SessionConfig.builder().withDefaultAccessMode(AccessMode.READ).build();
        try (var driver = GraphDatabase.driver(args[0], AuthTokens.basic(args[1], args[2]))) {
            for (String way : List.of("session.run", "executeRead", "unasked")) {
                for (int turn = 0; turn < 2; turn++) {
                    try (Session session = driver.session(reading)) {
                        show(way, ways.get(way).run(session, args[3].replace("WAY", way)));
                    }
                }
            }
        }
    }
}
