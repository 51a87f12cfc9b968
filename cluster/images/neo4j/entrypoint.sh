#!/bin/sh
# Entrypoint of the stand-in for neo4j:5.26-community. As in that image: NEO4J_AUTH=neo4j/password or none; NEO4J_a_b__c=v sets a.b_c=v.
set -e
[ "${1:-neo4j}" = neo4j ] || exec "$@"
home=/var/lib/neo4j
conf=$home/conf/neo4j.conf
heap=512m
{
  echo server.default_listen_address=0.0.0.0
  echo dbms.usage_report.enabled=false
  # Without these two a stop takes 11 s.
  echo internal.server.bolt.thread_pool_shutdown_wait_time=0s
  echo internal.server.bolt.connection_shutdown_wait_time=0s
} >$conf
set_key() {
  sed "/^$(echo "$1" | sed 's/\./\\./g')=/d" $conf >$conf.new
  echo "$1=$2" >>$conf.new
  mv $conf.new $conf
}
for name in $(env | sed -n 's/^\(NEO4J_[A-Za-z0-9_]*\)=.*/\1/p'); do
  case $name in
    NEO4J_AUTH | NEO4J_HOME | NEO4J_CONF | NEO4J_EDITION | NEO4J_PLUGINS | NEO4J_ACCEPT_LICENSE_AGREEMENT) continue ;;
  esac
  key=$(echo "${name#NEO4J_}" | sed 's/__/%/g; s/_/./g; s/%/_/g')
  eval "value=\$$name"
  case $key in
    server.memory.heap.max_size) heap=$value ;;
    server.memory.heap.initial_size) ;;
    *) set_key "$key" "$value" ;;
  esac
done
export NEO4J_HOME=$home NEO4J_CONF=$home/conf
case "${NEO4J_AUTH:-}" in
  none) set_key dbms.security.auth_enabled false ;;
  neo4j/*)
    # Works only before the first start.
    [ -d /data/databases/system ] || java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$home/lib/*" \
      org.neo4j.cli.AdminTool dbms set-initial-password "${NEO4J_AUTH#neo4j/}"
    ;;
  '') ;;
  *)
    echo "NEO4J_AUTH is neither none nor neo4j/password" >&2
    exit 1
    ;;
esac
exec java -XX:+UseSerialGC "-Xms$heap" "-Xmx$heap" -XX:+ExitOnOutOfMemoryError -Dfile.encoding=UTF-8 \
  -Djava.awt.headless=true -Dio.netty.tryReflectionSetAccessible=true \
  --add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/java.io=ALL-UNNAMED \
  --add-opens=java.base/sun.nio.ch=ALL-UNNAMED --add-opens=java.base/java.util.concurrent=ALL-UNNAMED \
  -cp "$home/lib/*" org.neo4j.server.CommunityEntryPoint --home-dir=$home --config-dir=$home/conf --console-mode
