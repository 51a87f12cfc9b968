#!/bin/sh
# Makes the secrets that docker-compose.cluster.yml mounts, in cluster/secrets (or the folder of the first argument).
# Existing files stay: a new cluster key would empty the cache, and a new password would not fit Neo4j's volume.
#
# All users can read the files, because containers with users of their own mount them. Only the owner of the folder can
# enter it.
set -eu
folder=${1:-$(dirname "$0")/secrets}
umask 077
mkdir -p "$folder"
random() { head -c 24 /dev/urandom | od -An -v -tx1 | tr -d ' \n'; }
keep() {
  if [ ! -s "$folder/$1" ]; then
    printf '%s' "$2" >"$folder/$1.new"
    mv "$folder/$1.new" "$folder/$1"
    echo "made $folder/$1"
  fi
  chmod 0444 "$folder/$1"
}
keep cluster.key "$(random)"
keep admin.token "$(random)"
keep grafana.password "$(random)"
keep neo4j.password "$(random)"
# Neo4j's image reads its first password from this variable only.
keep neo4j.env "NEO4J_AUTH=neo4j/$(cat "$folder/neo4j.password")"
