#!/usr/bin/env bash
# usage: run.sh FOLDER URL USER PASSWORD; prints the tests that pass. They delete all data of the database.
set -euo pipefail
address=${2#*://}
export TEST_NEO4J_SCHEME=${2%%://*} TEST_NEO4J_HOST=${address%:*} TEST_NEO4J_PORT=${address##*:}
export TEST_NEO4J_USER=$3 TEST_NEO4J_PASS=$4 TEST_NEO4J_VERSION=5.26.12
cd "$1/source/neo4j/test-integration"
"$1/tests" -test.v -test.timeout 300s >"$1/log" 2>&1 || true
sed -n 's/^ *--- PASS: \(.*\) (.*/\1/p' "$1/log"
