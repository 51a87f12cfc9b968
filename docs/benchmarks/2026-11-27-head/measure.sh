#!/bin/bash
# Runs the measurements below, from a clone with a build of profile dist: all of them, or those that are named.
cd "$(git rev-parse --show-toplevel)"
export HOPCACHE_BIN=$PWD/target/dist/hopcache
B=target/dist/hopcache-bench
eval "$(cargo xtask services env)"
O=out/head; mkdir -p $O
LDBC="--data ../shared/data/ldbc-sf0.1"
# About 25 s of a full Neo4j: 22,446 distinct queries of 16 applications.
FULL="$LDBC --requests 60000 --sessions 512 --applications 16"
limit() { $B prefetch limit $FULL --limits 32,2,4,adaptive,adaptive-off --rounds 3 --out $O/limit.md; }
onecore() { $B prefetch limit $FULL --limits 2,adaptive --rounds 3 --one-core-after 8 --out $O/onecore.md; }
second() { # two clusters before one Neo4j
  for r in 1 2; do for a in 2 adaptive; do
    $B prefetch limit $FULL --limits $a --rounds 1 --out $O/second-b.md > /dev/null &
    $B prefetch limit $FULL --limits $a --rounds 1 | grep "^| 1 |"
    wait; grep "^| 1 |" $O/second-b.md | sed 's/^/second: /'
  done; done | tee $O/second.md; rm -f $O/second-b.md; }
line() { $B prefetch line $LDBC --rounds 3 --out $O/line.md; }
walks() { $B prefetch --arms both --rounds 1 --seconds 40 --warm 30 $LDBC --out $O/prefetch; }
memory() { for bytes in 1024 100; do for asked in 1 3; do
    $B memory --entries 40000 --tags 3 --budget-mib 512 --bytes $bytes --asked $asked > $O/memory-$bytes-asked-$asked.md; done; done; }
hit() { $B hit --out $O/hit.md; }
for each in "${@:-limit onecore second line walks memory hit}"; do for name in $each; do echo "== $name $(date +%T)"; $name; done; done
