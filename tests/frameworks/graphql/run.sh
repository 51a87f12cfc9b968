#!/usr/bin/env bash
# usage: run.sh FOLDER URL USER PASSWORD; prints what the program sees, a line each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
NODE_PATH="$1/node_modules" exec node "$here/app.js" "${@:2}"
