#!/usr/bin/env bash
# Installs one of Neo4j's drivers in FOLDER, and the programs of this folder for it in FOLDER/programs. Does nothing when
# FOLDER has both, as new as these files.
# usage: install.sh LANGUAGE VERSION FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
language=$1 version=$2 folder=$3
complete=$folder/complete
if [ -e "$complete" ] && [ -z "$(find "$here/$language" "$0" -newer "$complete")" ]; then exit 0; fi
mkdir -p "$folder/programs"
rm -f "$complete"
folder=$(cd "$folder" && pwd)

# The program FILE as drivers of this version read it: before_6.sed is for versions before 6, before_5.sed for versions
# before 5 as well.
program() {
  local text
  text=$(cat "$1")
  for major in 6 5; do
    if [ "${version%%.*}" -lt $major ] && [ -e "$here/$language/before_$major.sed" ]; then
      text=$(sed -f "$here/$language/before_$major.sed" <<<"$text")
    fi
  done
  printf '%s\n' "$text" >"$folder/programs/$(basename "$1")"
}

case $language in
python)
  for each in "$here"/python/*.py; do program "$each"; done
  [ -x "$folder/venv/bin/python" ] || python3 -m venv "$folder/venv"
  "$folder/venv/bin/python" -m pip install --quiet "neo4j==$version"
  ;;
javascript)
  for each in "$here"/javascript/*.js; do program "$each"; done
  npm install --silent --no-audit --no-fund --prefix "$folder" "neo4j-driver@$version"
  ;;
java)
  for each in "$here"/java/*.java; do program "$each"; done
  # Offline first: a filled local repository saves the round trips.
  copy=(mvn --quiet --batch-mode --file "$here/java/pom.xml" "-Ddriver.version=$version" dependency:copy-dependencies
    "-DoutputDirectory=$folder/lib" -DincludeScope=runtime)
  "${copy[@]}" --offline >/dev/null 2>&1 || "${copy[@]}"
  javac -Xlint:none -nowarn -encoding UTF-8 -cp "$folder/lib/*" -d "$folder/classes" "$folder"/programs/*.java
  ;;
go)
  for each in "$here"/go/*.go; do program "$each"; done
  cd "$folder/programs"
  printf 'module hopcache.test/drivers\n\ngo 1.24\n\nrequire github.com/neo4j/neo4j-go-driver/v%s v%s\n' \
    "${version%%.*}" "$version" >go.mod
  cp "$here/go/go.sum" go.sum
  CGO_ENABLED=0 go build -mod=mod -o "$folder/answers" .
  # For the newest driver alone, as python/cluster.py.
  if [ "${version%%.*}" -ge 6 ]; then
    cp -r "$here/go/cluster" .
    CGO_ENABLED=0 go build -mod=mod -o "$folder/cluster" ./cluster
  fi
  ;;
*)
  echo "install.sh: python, javascript, java or go, not $language" >&2
  exit 2
  ;;
esac
touch "$complete"
