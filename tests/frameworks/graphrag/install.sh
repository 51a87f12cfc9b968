#!/usr/bin/env bash
# Installs it in the folder $1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../pip.sh" "$1" neo4j-graphrag==1.22.0
