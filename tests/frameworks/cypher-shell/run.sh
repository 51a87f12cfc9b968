#!/usr/bin/env bash
# usage: run.sh FOLDER URL USER PASSWORD; prints what the program sees, a line each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
shell() { java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$home/lib/*" org.neo4j.shell.startup.CypherShellBoot -a "$url" -u "$user" -p "$password" "$@" 2>&1 || echo "exit code $?"; }
home=$1 url=$2 user=$3 password=$4
# The lines of each command get its number, so that equal lines of different commands stay apart.
n=0
told() { n=$((n + 1)); sed "s/^/$n: /" | sed -E "s/(ready to start consuming query after|results (available|consumed) after) [0-9]+ ms/\1 N ms/g; s/another [0-9]+ ms/another N ms/g"; }
plain() { shell --format plain "$@" </dev/null | told; }
plain "MATCH (n:HcShell) DETACH DELETE n"
plain "UNWIND range(1, 3) AS n CREATE (:HcShell {n: n, at: date(\"2024-02-29\")})"
plain "MATCH (n:HcShell) RETURN n.n AS n, n.at AS at ORDER BY n"
plain "MATCH (n:HcShell) RETURN n.n AS n, n.at AS at ORDER BY n"
shell --format verbose "MATCH (n:HcShell) RETURN properties(n) AS p ORDER BY n.n" </dev/null | told
shell --format verbose "EXPLAIN MATCH (n:HcShell) RETURN n" </dev/null | told
plain --param "{x: 7}" "RETURN \$x AS x"
plain "RETRUN 1"
plain --access-mode read "CREATE (:HcShell)"
plain -d nosuchdatabase "RETURN 1"
shell --format plain <<"C" | told
:begin
CREATE (:HcShell {n: 4});
MATCH (n:HcShell) RETURN count(n) AS within;
:rollback
MATCH (n:HcShell) RETURN count(n) AS rolledBack;
:begin
CREATE (:HcShell {n: 5});
:commit
MATCH (n:HcShell) RETURN count(n) AS committed;
:use system
SHOW DATABASES YIELD name RETURN name ORDER BY name;
:use neo4j
MATCH (n:HcShell) DETACH DELETE n;
MATCH (n:HcShell) RETURN count(n) AS cleared;
C
