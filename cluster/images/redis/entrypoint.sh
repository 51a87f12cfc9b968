#!/bin/sh
# Entrypoint of the stand-in for redis:7-alpine. As in that image, options or a .conf alone start redis-server, and without a
# configuration nothing is protected from other containers.
set -e
case "${1:-redis-server}" in
  -* | *.conf) set -- redis-server "$@" ;;
esac
# After the options of the caller, because --version only counts as the first option.
if [ "$1" = redis-server ]; then
  exec "$@" --protected-mode no
fi
exec "$@"
