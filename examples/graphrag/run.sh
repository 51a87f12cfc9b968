#!/usr/bin/env bash
# A GraphRAG loop before three nodes of Hopcache: texts, entities, their surroundings in the graph, the context for a model.
# usage: run.sh [install]; ../cluster.sh lists the variables
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../cluster.sh"
install_python
after_install "$@"
start_cluster
"$home/venv/bin/python" "$here/app.py"
