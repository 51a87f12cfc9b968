#!/usr/bin/env bash
# The oracle, calm, many reads in one run, with the memory of the test program and of Neo4j over time.
#
#   oracle-long.sh CHECKOUT [OUT]
#
# READS (1000000), SEED (the time), BINARY (CHECKOUT/target/dist/hopcache), TEST (a built test program `oracle`; built here if
# unset), NEO4J_HEAP_MIB (2048), NEO4J_NICE and TEST_NICE (-10). OUT gets run.txt, memory.csv, summary.txt. Starts a Neo4j of its
# own and a Redis by the test itself; both end with the script. Needs the jars in CHECKOUT/target/services/neo4j-lib (`cargo xtask
# services up` fetches them) and java.
set -euo pipefail
checkout=$(realpath "${1:?a checkout}")
out=${2:-$checkout/target/oracle-long}
reads=${READS:-1000000} seed=${SEED:-$(date +%s)}
binary=${BINARY:-$checkout/target/dist/hopcache}
heap=${NEO4J_HEAP_MIB:-2048}
jars=${JARS:-$checkout/target/services/neo4j-lib}
cd "$checkout"
[ -x "$binary" ] || { echo "no program at $binary: cargo build --profile dist -p hopcache"; exit 2; }
[ -e "$jars/.complete" ] || { echo "no jars in $jars: cargo xtask services up"; exit 2; }
mkdir -p "$out"

test=${TEST:-}
if [ -z "$test" ]; then
    # The same features as the gate's build, so that nothing but the test is built anew.
    test=$(CARGO_INCREMENTAL=0 nice -n 5 cargo test --workspace --test oracle --no-run 2>&1 | tee "$out/build.txt" |
        sed -n "s/.*\.\.\/\.\.\/tests\/oracle\/main.rs (\(.*\))/\1/p" | tail -n 1)
fi
[ -x "$test" ] || { cat "$out/build.txt"; echo "no test program"; exit 2; }

home=$(mktemp -d)
pids=()
finish() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$home"
}
trap finish EXIT
mkdir -p "$home"/{conf,data,import,logs,run,plugins}
read -r bolt http < <(python3 - <<'PY'
import socket
s = [socket.socket() for _ in range(2)]
for each in s: each.bind(("127.0.0.1", 0))
print(*[each.getsockname()[1] for each in s])
PY
)
# Room for the oracle's texts among the plans: 260 templates by groups.
cat >"$home/conf/neo4j.conf" <<CONF
server.default_listen_address=127.0.0.1
server.bolt.listen_address=:$bolt
server.bolt.advertised_address=127.0.0.1:$bolt
server.http.listen_address=:$http
server.http.advertised_address=127.0.0.1:$http
server.https.enabled=false
dbms.usage_report.enabled=false
dbms.security.auth_enabled=true
server.memory.pagecache.size=64m
dbms.memory.transaction.total.max=1g
server.memory.query_cache.per_db_cache_num_entries=20000
internal.server.bolt.thread_pool_shutdown_wait_time=0s
internal.server.bolt.connection_shutdown_wait_time=0s
CONF
export HOPCACHE_TEST_NEO4J_PASSWORD=hopcache-test
NEO4J_HOME=$home NEO4J_CONF=$home/conf java -cp "$jars/*" org.neo4j.cli.AdminTool dbms set-initial-password \
    "$HOPCACHE_TEST_NEO4J_PASSWORD" >"$out/neo4j.txt" 2>&1
opens=(java.nio java.io sun.nio.ch java.util.concurrent)
nice -n "${NEO4J_NICE:--10}" java -XX:+UseSerialGC -Xms"${heap}"m -Xmx"${heap}"m -XX:+ExitOnOutOfMemoryError \
    -Dfile.encoding=UTF-8 -Dio.netty.tryReflectionSetAccessible=true \
    "${opens[@]/#/--add-opens=java.base/}" -cp "$jars/*" org.neo4j.server.CommunityEntryPoint \
    --home-dir="$home" --config-dir="$home/conf" --console-mode >>"$out/neo4j.txt" 2>&1 </dev/null &
neo4j=$!
pids+=("$neo4j")
for _ in $(seq 300); do
    curl -sf "http://127.0.0.1:$http/" >/dev/null && break
    kill -0 "$neo4j" || { tail "$out/neo4j.txt"; exit 1; }
    sleep 1
done
export HOPCACHE_TEST_NEO4J_BOLT=bolt://127.0.0.1:$bolt HOPCACHE_TEST_NEO4J_HTTP=http://127.0.0.1:$http
export HOPCACHE_TEST_NEO4J_JARS=$jars HOPCACHE_TEST_BINARY=$binary
export HOPCACHE_TEST_ORACLE_READS=$reads HOPCACHE_TEST_ORACLE_SEED=$seed

began=$(date +%s)
(cd crates/node && exec nice -n "${TEST_NICE:--10}" "$test" every_answer --nocapture --test-threads=1) \
    >"$out/run.txt" 2>&1 </dev/null &
run=$!
pids+=("$run")
echo "seconds,test_kib,neo4j_kib,nodes_kib,available_kib,load" >"$out/memory.csv"
rss() { awk '/^VmRSS/ { sum += $2 } END { print sum + 0 }' "${@/#//proc/}" 2>/dev/null || echo 0; }
while kill -0 "$run" 2>/dev/null; do
    nodes=()
    for child in $(pgrep -P "$run" 2>/dev/null); do nodes+=("$child/status"); done
    echo "$(($(date +%s) - began)),$(rss "$run/status"),$(rss "$neo4j/status"),$(rss "${nodes[@]:-self/none}"),$(awk '/MemAvailable/ { print $2 }' /proc/meminfo),$(cut -d' ' -f1 /proc/loadavg)" \
        >>"$out/memory.csv"
    sleep 10
done
status=0
wait "$run" || status=$?
{
    echo "commit $(git rev-parse HEAD), program $binary, seed $seed, $reads reads, heap $heap MiB"
    echo "ended with $status after $(($(date +%s) - began)) s"
    grep -E '^calm: (seed|faults)|^test |panicked|violations' "$out/run.txt" | tail -n 6
    echo "memory, first and last: "
    sed -n '1p;2p;$p' "$out/memory.csv"
} | tee "$out/summary.txt"
exit "$status"
