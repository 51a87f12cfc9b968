#!/usr/bin/env bash
# CPU time of a node per hit, with and without TLS on the client listener: two nodes on the sample graph, wrk (Debian's
# package) with 32 keep-alive connections on one key, rounds alternated; and the CPU time of a whole handshake, by
# connections that ask once and close.
#   cost.sh HOPCACHE [ROUNDS] [SECONDS]
set -euo pipefail
program=$(realpath "$1") rounds=${2:-7} seconds=${3:-3}
dir=$(mktemp -d) && cd "$dir"
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$dir"' EXIT
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost \
  -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout key.pem -out cert.pem 2>/dev/null

start() { # name, port, further arguments: the node's process id in $node
  local name=$1 port=$2; shift 2
  "$program" serve --sample --set=node.client_addr=127.0.0.1:$port --set=node.peer_addr=127.0.0.1:$((port + 1)) \
    --set=node.admin_addr=127.0.0.1:$((port + 2)) --set=node.bolt_addr= --set=prefetch.enabled=false \
    --set=entry.ttl=1h "$@" 2>"$name.log" &
  node=$!
  until curl -fs "http://127.0.0.1:$((port + 2))/readyz" >/dev/null; do sleep 0.1; done
}
cat > post.lua <<'LUA'
wrk.method = "POST"
wrk.body = '{"statement":"UNWIND range(1, 205) AS x RETURN x"}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Basic YTpi"
wrk.headers["Hopcache-Session"] = "one"
LUA
sed 's/^wrk.headers\["Auth/wrk.headers["Connection"] = "close"\n&/' post.lua > once.lua
ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }
measure() { # process, url, script: microseconds of CPU per request, and requests
  local before after requests
  before=$(ticks "$1")
  requests=$(wrk -t1 -c32 -d"${seconds}s" -s "$3" "$2" | awk '/requests in/ {print $1} /Non-2xx/ {exit 1}')
  after=$(ticks "$1")
  awk -v t=$((after - before)) -v n="$requests" -v hz="$(getconf CLK_TCK)" 'BEGIN {printf "%.2f %d", t / hz * 1e6 / n, n}'
}
start plain 21000; plain=$node
start tls 21010 --set=node.client_tls.cert_file="$dir/cert.pem" --set=node.client_tls.key_file="$dir/key.pem"; tls=$node
path=/db/neo4j/query/v2
echo "# $("$program" --version), $rounds rounds of $seconds s, 32 connections; us of CPU of the node per request (requests)"
echo "round  plain  tls  tls_over_plain  plain_new_connection  tls_new_connection"
for round in $(seq "$rounds"); do
  p=$(measure $plain http://127.0.0.1:21000$path post.lua); t=$(measure $tls https://127.0.0.1:21010$path post.lua)
  c=$(measure $plain http://127.0.0.1:21000$path once.lua); h=$(measure $tls https://127.0.0.1:21010$path once.lua)
  echo "$round  ${p/ / (})  ${t/ / (})  $(awk -v a="${p% *}" -v b="${t% *}" 'BEGIN {printf "%.2f", b / a}')  ${c/ / (})  ${h/ / (})"
done
