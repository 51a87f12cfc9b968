#!/usr/bin/env bash
# Installs the integration tests of Neo4j's Go driver, which its module has, in the folder $1.
set -euo pipefail
module=github.com/neo4j/neo4j-go-driver/v6@v6.1.0
[ ! -x "$1/tests" ] || exit 0
mkdir -p "$1"
found=$(cd "$1" && go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
rm -rf "$1/source"
cp -R "$found" "$1/source"
chmod -R u+w "$1/source"
cd "$1/source"
CGO_ENABLED=0 go test -mod=mod -c -o "$1/tests" ./neo4j/test-integration
