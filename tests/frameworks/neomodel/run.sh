#!/usr/bin/env bash
# usage: run.sh FOLDER URL USER PASSWORD; prints what the program sees, a line each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec "$1/venv/bin/python" "$here/app.py" "${@:2}"
