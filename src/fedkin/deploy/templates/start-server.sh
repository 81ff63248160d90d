#!/bin/sh
# Starts Flower's server, the SuperLink. It runs until it is stopped; started again, it still knows its sites.
CDPATH= cd -- "$(dirname -- "$0")" || exit 1
. ./environment.sh
# What sites send passes through the database, so it is for its owner alone.
(umask 077 && : >> server.db && chmod 600 server.db) || exit 1
export FLWR_HOME="$PWD/flower"
if [ "$minor" -ge 40 ]; then
  set -- --host {{ listen }} --port {{ port }}
else
  # Before 1.40, sites connect to this port, `flwr` to the next one, and the server's own processes to the two after it.
  set -- --fleet-api-address {{ listen }}:{{ port }} --control-api-address {{ listen }}:$(({{ port }} + 1))
  [ "$minor" -ge 35 ] || set -- "$@" --serverappio-api-address 127.0.0.1:$(({{ port }} + 2))
  [ "$minor" -lt 33 ] || set -- "$@" --port $(({{ port }} + 3))
fi
# Before 1.32 it installs nothing at run time unless asked to.
[ "$minor" -lt 32 ] || set -- "$@" --disable-runtime-dependency-installation
exec flower-superlink "$@" --database server.db \
{% if secure %}
  --ssl-ca-certfile certificates/ca.crt --ssl-certfile certificates/server.crt \
  --ssl-keyfile certificates/server.key --enable-supernode-auth
{% else %}
  --insecure
{% endif %}
