#!/usr/bin/env bash
# A load picture: the FastAPI service asked by several clients, first at your Neo4j, then at three nodes of Hopcache before it.
# Copies the people of the sample graph to Neo4j when it has no :Person.
# usage: NEO4J_PASSWORD=… load.sh NEO4J_BOLT_URI [OPTION…]; load.py lists the options, ../cluster.sh the variables
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
neo4j=${1:?usage: NEO4J_PASSWORD=… load.sh bolt://localhost:7687 [OPTION…]}
shift
unset NEO4J_URI
. "$here/../cluster.sh"
install_python
python=$home/venv/bin/python
export PYTHONDONTWRITEBYTECODE=1

start_cluster
"$python" "$here/fill.py" "$NEO4J_URI" "$neo4j"
end "${started[-1]}"
unset 'started[-1]' NEO4J_URI

# The service at a port, before the database that NEO4J_URI names.
serve_at() {
  port=$1
  start_service /health "$python" -m uvicorn --app-dir "$here" --port "$port" --log-level warning app:service
}

start_cluster --neo4j "$neo4j"
before=$port after=$((port + 1))
NEO4J_URI=$neo4j serve_at "$before"
serve_at "$after"
"$python" "$here/load.py" --before "http://127.0.0.1:$before" --after "http://127.0.0.1:$after" --out "$home/load" "$@"
