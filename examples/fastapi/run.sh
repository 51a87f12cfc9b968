#!/usr/bin/env bash
# A FastAPI service on Neo4j's Python driver, before three nodes of Hopcache. Prints a line for each request.
# usage: run.sh [install]; ../cluster.sh lists the variables
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../cluster.sh"
install_python
after_install "$@"
start_cluster
export PYTHONDONTWRITEBYTECODE=1
start_service /health "$home/venv/bin/python" -m uvicorn --app-dir "$here" --port "$port" --log-level warning app:service
ask_about_people
