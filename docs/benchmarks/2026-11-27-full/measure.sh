#!/bin/bash
# Runs the measurements of this folder, from a clone with a build of profile dist.
cd "$(git rev-parse --show-toplevel)"
eval "$(cargo xtask services env)"
B=target/dist/hopcache-bench; O=out/full; mkdir -p $O
LDBC="--data ../shared/data/ldbc-sf0.1"
FULL="--sessions 512 --applications 16"
limit() { $B prefetch limit $LDBC --requests 60000 $FULL --limits 4,adaptive --rounds 4 --out $O/limit.md; }
onecore() { $B prefetch limit $LDBC --requests 60000 $FULL --limits 2,adaptive --rounds 3 --one-core-after 8 --out $O/onecore.md; }
beside() { $B prefetch limit $LDBC --requests 120000 --sessions 1024 --applications 16 --limits adaptive,adaptive-off --slice 24000 --rounds 3 --out $O/beside-off.md; }
# A copy of the bench, and beside it as `hopcache` a script that runs the program of 788795f (its release profile) where
# the configuration says max_concurrent = 32, without the line bolt_addr, which that program does not know.
old() { "$OLD/hopcache-bench" prefetch limit $LDBC --requests 20000 $FULL --limits 4,32,adaptive --rounds 3 --out $O/of-788795f.md; }
walks() { $B prefetch --arms both --rounds 1 --seconds 40 --warm 30 $LDBC --out $O/walks; }
for name in "${@:-limit onecore beside walks}"; do for each in $name; do echo "== $each $(date +%T)"; $each; done; done
