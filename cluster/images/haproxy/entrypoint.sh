#!/bin/sh
# Entrypoint of the stand-in for haproxy:2.8. As in that image, options alone start haproxy, in master-worker mode in the
# foreground.
set -e
case "${1:-}" in
  -*) set -- haproxy "$@" ;;
esac
if [ "$1" = haproxy ]; then
  shift
  set -- haproxy -W -db "$@"
fi
exec "$@"
