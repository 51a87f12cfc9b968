# Sourced by install.sh of Java's frameworks: the jars that $here/pom.xml names, and the classes of $here, in the folder $1.
set -euo pipefail
copy=(mvn --quiet --batch-mode --file "$here/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$1/lib"
  -DincludeScope=runtime)
rm -rf "$1/lib" "$1/classes"
"${copy[@]}" --offline >/dev/null 2>&1 || "${copy[@]}"
if compgen -G "$here/*.java" >/dev/null; then
  javac -parameters -nowarn -encoding UTF-8 -cp "$1/lib/*" -d "$1/classes" "$here"/*.java
fi
