#!/bin/sh
# Of the stand-in for redis:7-alpine. As there: options or a .conf alone mean redis-server, and without a
# configuration nothing is protected from other containers.
set -e
case "${1:-redis-server}" in
  -* | *.conf) set -- redis-server "$@" ;;
esac
# Behind what was asked for, since --version only counts as the first option.
if [ "$1" = redis-server ]; then
  exec "$@" --protected-mode no
fi
exec "$@"
