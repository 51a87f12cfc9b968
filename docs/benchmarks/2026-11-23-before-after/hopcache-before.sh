#!/bin/bash
# The program of 788795f, which does not know node.bolt_addr.
args=()
while [ $# -gt 0 ]; do
  if [ "$1" = --config ]; then
    sed '/^bolt_addr = /d; /^bolt_advertise = /d' "$2" > "$2.before.toml"
    args+=(--config "$2.before.toml"); shift 2
  else args+=("$1"); shift; fi
done
exec "${HOPCACHE_BEFORE:?the program of 788795f}" "${args[@]}"
