# Sourced by install.sh of Python's frameworks: a virtual environment in the folder $1 with the packages behind it.
set -euo pipefail
folder=$1
shift
[ -x "$folder/venv/bin/python" ] || python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet "$@"
