#!/bin/sh
# Of the stand-in for haproxy:2.8. As there: options alone mean haproxy, which runs in master-worker mode in the foreground.
set -e
case "${1:-}" in
  -*) set -- haproxy "$@" ;;
esac
if [ "$1" = haproxy ]; then
  shift
  set -- haproxy -W -db "$@"
fi
exec "$@"
