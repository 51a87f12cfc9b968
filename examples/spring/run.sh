#!/usr/bin/env bash
# A Spring Boot service on Spring Data Neo4j, before three nodes of Hopcache. Prints a line for each request.
# usage: run.sh [install]; ../cluster.sh lists the variables
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../cluster.sh"
install_spring
after_install "$@"
start_cluster
export PORT=$port
start_service /health java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx256m -jar "$home/people.jar"
ask_about_people
