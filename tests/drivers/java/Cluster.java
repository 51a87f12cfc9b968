import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.neo4j.driver.AuthTokens;
import org.neo4j.driver.Driver;
import org.neo4j.driver.GraphDatabase;
import org.neo4j.driver.Session;
import org.neo4j.driver.summary.ResultSummary;

/**
 * Transactions while nodes leave, die and come: what the driver's own retries did not absorb is an error. As
 * python/cluster.py.
 *
 * <p>usage: Cluster URI USER PASSWORD LABEL
 */
public final class Cluster {
    private static final AtomicBoolean OVER = new AtomicBoolean();
    private static final AtomicLong DONE = new AtomicLong();
    private static final List<String> ERRORS = new ArrayList<>();
    private static final Set<String> SERVERS = new TreeSet<>();

    public static void main(String[] args) throws Exception {
        long half = number("HOPCACHE_TEST_TRANSACTIONS", 60);
        int clients = (int) number("HOPCACHE_TEST_DRIVER_THREADS", 4);
        String line;
        try (Driver driver = GraphDatabase.driver(args[0], AuthTokens.basic(args[1], args[2]))) {
            List<Thread> threads = new ArrayList<>();
            long began = System.nanoTime();
            for (int who = 0; who < clients; who++) {
                int own = who;
                Thread thread = new Thread(() -> work(driver, args[3], own));
                thread.start();
                threads.add(thread);
            }
            until(half);
            System.out.println("begun");
            System.out.flush();
            while (System.in.read() >= 0) {}
            until(DONE.get() + half);
            OVER.set(true);
            for (Thread thread : threads) {
                thread.join();
            }
            double seconds = (System.nanoTime() - began) / 1e9;
            line = "{\"done\": " + DONE.get() + ", \"per_s\": " + DONE.get() / seconds + ", \"clients\": " + clients
                    + ", \"errors\": " + list(ERRORS) + ", \"servers\": " + list(SERVERS) + "}";
        }
        System.out.println(line);
    }

    private static void work(Driver driver, String label, int who) {
        for (int n = 1; !OVER.get(); n++) {
            int now = n;
            try (Session session = driver.session()) {
                ResultSummary read = session.executeRead(tx -> tx.run("RETURN 'read " + now % 7 + "'").consume());
                ResultSummary write = session.executeWrite(
                        tx -> tx.run("MERGE (n:" + label + " {who: " + who + "}) SET n.n = " + now).consume());
                DONE.addAndGet(2);
                synchronized (SERVERS) {
                    SERVERS.add(read.server().address());
                    SERVERS.add(write.server().address());
                }
            } catch (RuntimeException error) {
                synchronized (ERRORS) {
                    ERRORS.add(error.toString());
                    if (ERRORS.size() > 20) {
                        OVER.set(true);
                    }
                }
            }
        }
    }

    private static void until(long count) throws InterruptedException {
        while (DONE.get() < count && !OVER.get()) {
            Thread.sleep(10);
        }
    }

    private static long number(String name, long usual) {
        String text = System.getenv(name);
        return text == null ? usual : Long.parseLong(text);
    }

    private static String list(Iterable<String> texts) {
        List<String> quoted = new ArrayList<>();
        for (String text : texts) {
            quoted.add('"' + text.replaceAll("[\\\\\"\\p{Cntrl}]", " ") + '"');
        }
        return quoted.toString();
    }
}
