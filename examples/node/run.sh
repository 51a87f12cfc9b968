#!/usr/bin/env bash
# An Express service on Neo4j's JavaScript driver, before three nodes of Hopcache. Prints a line for each request.
# usage: run.sh [install]; ../cluster.sh lists the variables
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../cluster.sh"
install_node
after_install "$@"
start_cluster
export NODE_PATH=$home/node_modules PORT=$port
start_service /health node "$here/app.js"
ask_about_people
