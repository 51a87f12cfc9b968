#!/bin/sh
# Makes what docker-compose.cluster.yml mounts as secrets, in cluster/secrets (or the folder named first). What is
# there already stays: a new cluster key would empty the cache, a new password would not fit Neo4j's volume.
#
# The files can be read by everybody, since each is mounted into containers with users of their own; the folder can
# be entered by its owner only.
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
