#!/usr/bin/env bash
# Installs it in the folder $1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
npm install --silent --no-audit --no-fund --prefix "$1" @neo4j/graphql@7.6.3 graphql@16 neo4j-driver@6.3.0
