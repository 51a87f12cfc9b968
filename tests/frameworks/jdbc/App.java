import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CompletionException;

/**
 * An application on Neo4j's JDBC driver: statements, batches, transactions, metadata.
 *
 * <p>usage: App URL USER PASSWORD
 */
public final class App {
    private interface Work {
        Object run() throws SQLException;
    }

    private static void show(String name, Work work) {
        Object seen;
        try {
            seen = work.run();
        } catch (SQLException error) {
            seen = List.of(error.getClass().getSimpleName(), String.valueOf(error.getSQLState()), error.getMessage());
        } catch (CompletionException error) {
            // The driver reports a refused log-on in this way.
            seen = List.of(error.getClass().getSimpleName(), error.getMessage());
        }
        System.out.println(name + ": " + seen);
    }

    private static List<Object> rows(ResultSet rows) throws SQLException {
        ResultSetMetaData meta = rows.getMetaData();
        List<Object> all = new ArrayList<>();
        while (rows.next()) {
            List<String> row = new ArrayList<>();
            for (int n = 1; n <= meta.getColumnCount(); n++) {
                row.add(meta.getColumnLabel(n) + "=" + rows.getObject(n));
            }
            all.add(row);
        }
        return all;
    }

    private static Object read(Connection connection, String text) throws SQLException {
        try (var statement = connection.createStatement(); var result = statement.executeQuery(text)) {
            return rows(result);
        }
    }

    private static Object write(Connection connection, String text) throws SQLException {
        try (var statement = connection.createStatement()) {
            return statement.executeUpdate(text);
        }
    }

    public static void main(String[] args) throws SQLException {
        // jdbc:neo4j:// is one connection, as bolt:// is; the driver has no routing.
        String url = "jdbc:neo4j://" + args[0].substring(args[0].indexOf("://") + 3);
        try (Connection connection = DriverManager.getConnection(url, args[1], args[2])) {
            write(connection, "MATCH (n:HcJdbc) DETACH DELETE n");
            statements(connection);
            transactions(connection);
            metadata(connection);
            write(connection, "MATCH (n:HcJdbc) DETACH DELETE n");
            show("cleared", () -> read(connection, "MATCH (n:HcJdbc) RETURN count(n) AS n"));
        }
        show("a wrong password", () -> DriverManager.getConnection(url, args[1], "not the password").isValid(1));
    }

    private static void statements(Connection connection) {
        String all = "MATCH (n:HcJdbc) RETURN n.n AS n, n.name AS name ORDER BY n";
        show("written", () -> write(connection, "UNWIND range(1, 3) AS n CREATE (:HcJdbc {n: n, name: 'n' + n})"));
        show("read", () -> read(connection, all));
        show("read again", () -> read(connection, all));
        show("changed", () -> write(connection, "MATCH (n:HcJdbc {n: 1}) SET n.name = 'new'"));
        show("read later", () -> read(connection, all));
        show("prepared", () -> {
            try (var statement = connection.prepareStatement("MATCH (n:HcJdbc) WHERE n.n > $1 RETURN n.name AS name")) {
                statement.setInt(1, 2);
                return rows(statement.executeQuery());
            }
        });
        show("batch", () -> {
            try (var statement = connection.prepareStatement("CREATE (:HcJdbc {n: $1})")) {
                for (int n = 10; n < 13; n++) {
                    statement.setInt(1, n);
                    statement.addBatch();
                }
                return statement.executeBatch().length;
            }
        });
        show("behind the batch", () -> read(connection, "MATCH (n:HcJdbc) RETURN count(n) AS n"));
        show("types", () -> read(connection, "RETURN 1 AS i, 1.5 AS f, true AS b, 'x' AS s, null AS n, date('2024-02-29') AS d, [1, 2] AS l"));
        show("a fetch size", () -> {
            try (var statement = connection.createStatement()) {
                statement.setFetchSize(5);
                var rows = statement.executeQuery("UNWIND range(1, 23) AS n RETURN n");
                int sum = 0;
                while (rows.next()) {
                    sum += rows.getInt("n");
                }
                return sum;
            }
        });
        show("a syntax error", () -> read(connection, "RETRUN 1"));
        show("division", () -> read(connection, "RETURN 1 / 0"));
        show("works on", () -> read(connection, "RETURN 1 AS one"));
    }

    private static void transactions(Connection connection) throws SQLException {
        String count = "MATCH (n:HcJdbc) RETURN count(n) AS n";
        connection.setAutoCommit(false);
        show("within, before", () -> read(connection, count));
        show("within, write", () -> write(connection, "CREATE (:HcJdbc {n: 20})"));
        show("within, behind", () -> read(connection, count));
        connection.rollback();
        show("rolled back", () -> read(connection, count));
        show("again, write", () -> write(connection, "CREATE (:HcJdbc {n: 21})"));
        connection.commit();
        show("committed", () -> read(connection, count));
        connection.commit();
        connection.setReadOnly(true);
        show("a write in a read", () -> write(connection, "CREATE (:HcJdbc {n: 22})"));
        connection.rollback();
        connection.setReadOnly(false);
        connection.setAutoCommit(true);
        show("behind it all", () -> read(connection, count));
    }

    private static void metadata(Connection connection) throws SQLException {
        var meta = connection.getMetaData();
        show("product", () -> meta.getDatabaseProductName() + " " + meta.getDatabaseMajorVersion());
        show("tables", () -> {
            TreeSet<String> tables = new TreeSet<>();
            try (var rows = meta.getTables(null, null, "HcJdbc", null)) {
                while (rows.next()) {
                    tables.add(rows.getString("TABLE_NAME"));
                }
            }
            return tables;
        });
        show("columns", () -> {
            TreeSet<String> columns = new TreeSet<>();
            try (var rows = meta.getColumns(null, null, "HcJdbc", null)) {
                while (rows.next()) {
                    columns.add(rows.getString("COLUMN_NAME") + " " + rows.getString("TYPE_NAME"));
                }
            }
            return columns;
        });
        show("procedures", () -> {
            try (var rows = meta.getProcedures(null, null, "db.labels")) {
                return rows(rows).size();
            }
        });
    }
}
