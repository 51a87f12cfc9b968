# Sourced by each example's run.sh: starts `hopcache dev` and the service, asks the service, and ends what it started.
#
# The script that sources this file sets `here` (the folder of the example) first. This file sets `home` (where the
# example is installed), `port` (where its service listens), and exports NEO4J_URI, NEO4J_USER and NEO4J_PASSWORD.
#
# | variable             | meaning                                                                                   |
# |----------------------|-------------------------------------------------------------------------------------------|
# | HOPCACHE_BIN         | the program; without it, cargo builds and runs the release build                          |
# | NEO4J_URI            | a `hopcache dev` that runs already; the script then starts none                           |
# | HOPCACHE_ADMIN       | the admin addresses of its nodes, separated by spaces; `hopcache dev` prints them         |
# | EXAMPLES_HOME        | where examples are installed; target/examples by default                                  |
# | EXAMPLES_BASE_PORT   | --base-port of the `hopcache dev` that the script starts; 7475 by default                 |
# | EXAMPLES_PORT        | where the service of the example listens; 8000 by default                                 |
# | EXAMPLES_WAIT        | seconds that one start may take; 120 by default                                           |
set -euo pipefail
: "${here:?the folder of the example}"
root=$(cd "$here/../.." && pwd)
example=$(basename "$here")
home=${EXAMPLES_HOME:-${CARGO_TARGET_DIR:-$root/target}/examples}/$example
port=${EXAMPLES_PORT:-8000}
wait_max=${EXAMPLES_WAIT:-120}
program=${HOPCACHE_BIN-}
# Hopcache reads its configuration from variables that begin so, and warns of those that it does not know.
export -n HOPCACHE_BIN HOPCACHE_ADMIN
mkdir -p "$home"
home=$(cd "$home" && pwd)

logs=$(mktemp -d)
started=()
is_own_cluster=false
asked=0

say() { printf '%s\n' "$*"; }

# Ends the script with a reason.
fail() {
  printf '%s: %s\n' "$example" "$*" >&2
  exit 1
}

# Ends a process: SIGTERM first, and SIGKILL 15 s later.
end() {
  kill -TERM "$1" 2>/dev/null || return 0
  for _ in $(seq 150); do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1 # poll interval
  done
  kill -KILL "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

# The last process that was started ends first: a service before its cluster. Shows the logs of a run that failed.
end_all() {
  local code=$? at
  for ((at = ${#started[@]} - 1; at >= 0; at--)); do end "${started[at]}"; done
  ((code == 0 || code > 128)) || tail -n 20 "$logs"/*.log >&2 2>/dev/null || true
  rm -rf "$logs"
  exit "$code"
}
trap end_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Waits until a command succeeds. Fails when the process ends before, or when the time is over.
# usage: await PROCESS NAME COMMAND…
await() {
  local process=$1 name=$2 deadline=$((SECONDS + wait_max))
  shift 2
  until "$@" >/dev/null 2>&1; do
    kill -0 "$process" 2>/dev/null || fail "$name ended before it was ready"
    ((SECONDS < deadline)) || fail "$name was not ready within $wait_max s"
    sleep 0.2 # poll interval
  done
}

# Whether the example is installed, and no file that decides how is newer.
# usage: is_installed FILE…
is_installed() { [ -e "$home/complete" ] && [ -z "$(find "$@" -newer "$home/complete")" ]; }

# A virtual environment with the packages of requirements.txt.
install_python() {
  is_installed "$here/requirements.txt" && return
  rm -f "$home/complete"
  [ -x "$home/venv/bin/python" ] || python3 -m venv "$home/venv"
  "$home/venv/bin/python" -m pip install --quiet --requirement "$here/requirements.txt"
  touch "$home/complete"
}

# The packages of package.json.
install_node() {
  is_installed "$here/package.json" && return
  rm -f "$home/complete"
  cp "$here/package.json" "$home/package.json"
  npm install --silent --no-audit --no-fund --no-package-lock --prefix "$home"
  touch "$home/complete"
}

# One jar with everything. Offline first: a filled local repository saves the round trips.
install_spring() {
  is_installed "$here/pom.xml" "$here/src" && return
  rm -f "$home/complete"
  local package=(mvn --quiet --batch-mode --file "$here/pom.xml" "-Dout=$home" package)
  "${package[@]}" --offline >/dev/null 2>&1 || "${package[@]}"
  touch "$home/complete"
}

# With the argument `install` an example installs itself and does no more.
# usage: after_install "$@"
after_install() {
  [ "${1-}" != install ] || exit 0
  [ $# -eq 0 ] || fail "usage: run.sh [install]"
}

# `hopcache dev` prints its first screen when all nodes see each other and have answered a query.
# usage: start_cluster [OPTION…]: further options of `hopcache dev`
start_cluster() {
  export NEO4J_USER=${NEO4J_USER:-neo4j} NEO4J_PASSWORD=${NEO4J_PASSWORD:-password}
  if [ -n "${NEO4J_URI-}" ]; then
    export NEO4J_URI
    admin=${HOPCACHE_ADMIN:-127.0.0.1:7477 127.0.0.1:7487 127.0.0.1:7497}
    say "uses $NEO4J_URI"
    return
  fi
  local base=${EXAMPLES_BASE_PORT:-7475} screen=$logs/screen.json
  local dev=("$program" dev)
  if [ -z "$program" ]; then
    (cd "$root" && cargo build --profile demo --package hopcache)
    dev=(cargo run --quiet --profile demo --manifest-path "$root/Cargo.toml" --package hopcache -- dev)
  fi
  "${dev[@]}" --json --base-port "$base" "$@" >"$screen" 2>"$logs/hopcache.log" &
  started+=($!)
  is_own_cluster=true
  await $! "hopcache dev" test -s "$screen"
  export NEO4J_URI=neo4j://localhost:$((base + 3))
  admin="127.0.0.1:$((base + 2)) 127.0.0.1:$((base + 12)) 127.0.0.1:$((base + 22))"
  say "started three nodes: $NEO4J_URI"
}

# Starts a service and waits until it answers.
# usage: start_service PATH COMMAND…
start_service() {
  local path=$1
  shift
  "$@" >>"$logs/service.log" 2>&1 &
  started+=($!)
  await $! "the service" curl --silent --fail --max-time 5 "http://127.0.0.1:$port$path"
}

# How many requests all nodes have answered: hits, misses and bypasses.
counts() {
  local each
  for each in $admin; do
    curl --silent --fail --max-time 10 "http://$each/metrics" || fail "no node answers at $each: set HOPCACHE_ADMIN"
  done | awk '
    /^hopcache_requests_total/ && match($0, /class="[a-z]+"/) { seen[substr($0, RSTART + 7, RLENGTH - 8)] += $NF }
    END { print seen["hit"] + 0, seen["miss"] + 0, seen["bypass"] + 0 }'
}

# What the nodes did since the counts in $1: `hit`, `miss` or `bypass`. A node counts a request when it has answered it,
# so the count may come a moment after the answer.
did_since() {
  local before now names=(hit miss bypass) at
  read -ra before <<<"$1"
  for _ in $(seq 200); do
    read -ra now <<<"$(counts)"
    for at in 0 1 2; do
      if ((now[at] > before[at])); then
        say "${names[at]}"
        return
      fi
    done
    sleep 0.1 # poll interval
  done
  say none
}

# Asks the service once and prints a line: method, path, status, what the cache did, the first bytes of the answer.
# A service that knows what the cache did says so in its header `x-cache`. For others the nodes' counters say it.
# usage: ask METHOD PATH EXPECTED TEXT: EXPECTED is hit, miss or bypass; TEXT stands in the answer, or `!TEXT` does not
ask() {
  local method=$1 path=$2 expected=$3 text=$4 before status cache body head=$logs/head answer=$logs/answer
  before=$(counts)
  status=$(curl --silent --show-error --max-time 60 --request "$method" --dump-header "$head" --output "$answer" \
    --write-out '%{http_code}' "http://127.0.0.1:$port$path") || fail "$method $path: no answer"
  cache=$(tr -d '\r' <"$head" | awk -F ': ' 'tolower($1) == "x-cache" { print $2 }')
  [ -n "$cache" ] || cache=$(did_since "$before")
  body=$(cat "$answer")
  printf '%-6s %-26s %s  %-6s  %.60s\n' "$method" "$path" "$status" "$cache" "$body"
  asked=$((asked + 1))
  [[ $status == 2?? ]] || fail "$method $path: $status: $body"
  # A cluster that ran before may have the entry already.
  if [ "$cache" != "$expected" ] && ! { [ "$expected $cache" = "miss hit" ] && ! $is_own_cluster; }; then
    fail "$method $path: expected a $expected, not $cache"
  fi
  if [ "${text#!}" != "$text" ]; then
    [[ $body != *"${text#!}"* ]] || fail "$method $path: the answer must not have ${text#!}"
  else
    [[ $body == *"$text"* ]] || fail "$method $path: the answer must have $text"
  fi
}

# What a user of the service sees. The three services have the same paths, so one list is for all of them.
# A read is a miss, then a hit. A write is seen by the next read: the write ended the entry.
ask_about_people() {
  ask GET /people/7 miss '"name":"Hana Abel"'
  ask GET /people/7 hit '"name":"Hana Abel"'
  ask GET /people/7/friends miss '"name":"Amir Costa"'
  ask GET /people/7/friends hit '!"name":"Ada Ek"'
  ask GET /people/7/suggestions miss '"name":"Ada Abel"'
  ask GET /people/7/suggestions hit '"name":"Ada Abel"'
  ask PUT /people/7/friends/1500 bypass '"name":"Ada Ek"'
  ask GET /people/7/friends miss '"name":"Ada Ek"'
  ask DELETE /people/7/friends/1500 bypass '"name":"Ada Ek"'
  ask GET /people/7/friends miss '!"name":"Ada Ek"'
  say "$example: $asked requests, all as expected"
}
