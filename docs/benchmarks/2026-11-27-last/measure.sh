#!/bin/bash
# Runs the measurements of this folder, from a clone with a build of profile dist: all of them, or those that are named.
cd "$(git rev-parse --show-toplevel)"
eval "$(cargo xtask services env)"
B=$PWD/target/dist; O=$PWD/out/last; mkdir -p "$O"
LDBC="--data ../shared/data/ldbc-sf0.1"
FULL="$LDBC --requests 60000 --sessions 512 --applications 16"
line() { "$B/hopcache-bench" prefetch line $LDBC --rounds 3 --out "$O/line.md"; }
hit() { "$B/hopcache-bench" hit --out "$O/hit.md"; }
memory() { for bytes in 1024 100; do
    "$B/hopcache-bench" memory --entries 40000 --tags 3 --budget-mib 512 --bytes $bytes --asked 1 > "$O/memory-$bytes-asked-1.md"; done; }
beside() { for slice in "120000 24000 4 beside-rest" "180000 60000 3 beside-long"; do set -- $slice
  "$B/hopcache-bench" prefetch limit $LDBC --requests $1 --sessions 1024 --applications 16 --limits adaptive-off,adaptive \
    --slice $2 --rest-ms 2500 --rounds $3 --out "$O/$4.md"; done; }
second() { # two clusters before one Neo4j
  for r in 1 2 3; do for a in 4 adaptive; do
    "$B/hopcache-bench" prefetch limit $FULL --limits $a --rounds 1 --out "$O/second-b.md" > /dev/null &
    "$B/hopcache-bench" prefetch limit $FULL --limits $a --rounds 1 | grep "^| 1 |"
    wait; grep "^| 1 |" "$O/second-b.md" | sed 's/^/second: /'
  done; done | tee "$O/second.md"; rm -f "$O/second-b.md"; }

# The bench starts the `hopcache` beside itself: here a script that changes the configuration first.
program() { # name, change of the configuration $3, program
  mkdir -p "$O/$1"; cp "$B/hopcache-bench" "$O/$1/"
  printf '#!/bin/sh\n%s\nexec %s "$@"\n' "$2" "$3" > "$O/$1/hopcache"; chmod +x "$O/$1/hopcache"; }
limit() { echo "sed -i 's/^\\[origin\\]\$/[origin]\\nmax_concurrent = $1/' \"\$3\""; }
UNPROVED='printf "\n[freshness]\nmax_life = \"0s\"\n" >> "$3"'
social() { # $OLD: hopcache of 788795f (cargo build --release). Its configuration has no bolt_addr.
  : "${OLD:?hopcache of 788795f}"
  program old 'sed -i "/^bolt_addr/d" "$3"' "$OLD"
  program head "" "$B/hopcache"; program head-4 "$(limit 4)" "$B/hopcache"
  program unproved "$UNPROVED" "$B/hopcache"
  for n in 2 4 8; do program unproved-$n "$(limit $n); $UNPROVED" "$B/hopcache"; done
  for r in 1 2 3; do for p in unproved unproved-2 unproved-4 unproved-8 old head head-4; do
    "$O/$p/hopcache-bench" ablation $LDBC --workloads social --loads closed-32 --arms all --rounds 1 --seconds 10 --warm 3 \
      --out "$O/$p/$r" > "$O/$p/$r.log" 2>&1
    echo "$p $r $(grep -E 'closed-32,all,(per_s|p99_ms|hits)' "$O/$p/$r/medians.csv" | cut -d, -f4,5 | tr '\n' ' ')"
  done; done; }
for each in "${@:-line hit memory beside second social}"; do for name in $each; do echo "== $name $(date +%T)"; $name; done; done
