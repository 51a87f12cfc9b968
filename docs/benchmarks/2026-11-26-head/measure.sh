#!/bin/bash
# Runs one of the measurements below, from a clone with a build of profile dist: limit, onecore, second.
cd "$(git rev-parse --show-toplevel)"
export HOPCACHE_BIN=target/dist/hopcache
B=target/dist/hopcache-bench
eval "$(cargo xtask services env)"
O=out; mkdir -p $O
DATA=../shared/data/ldbc-sf0.1
neo() { pgrep -f 'java.*neo4j' | head -1; }
limit() { $B prefetch limit --data $DATA --requests 20000 --limits 32,1,2,4,adaptive,adaptive-off --rounds 3 --out $O/limit.md; }
onecore() { # Neo4j has one core from the fifth second of each measurement
  for r in 1 2 3; do for a in 32 2 adaptive; do
    ( sleep 5; taskset -acp 0 $(neo) >/dev/null ) &
    $B prefetch limit --data $DATA --requests 20000 --limits $a --rounds 1 | grep "^| 1 |"
    wait; taskset -acp 0,1 $(neo) >/dev/null
  done; done; }
second() { for r in 1 2 3; do for a in 32 2 adaptive; do
    $B prefetch limit --data $DATA --requests 12000 --limits $a --rounds 1 > $O/second.b &
    $B prefetch limit --data $DATA --requests 12000 --limits $a --rounds 1 | grep "^| 1 |"
    wait; grep "^| 1 |" $O/second.b | sed 's/^/second: /'
  done; done; }
"$@"
