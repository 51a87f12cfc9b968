#!/usr/bin/env bash
# usage: run.sh FOLDER URL USER PASSWORD; prints what the program sees, a line each.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$1/classes:$1/lib/*" app.App "${@:2}"
