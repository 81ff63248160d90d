#!/bin/sh
# Starts Flower's server, the SuperLink. It runs until it is stopped; started again, it still knows its sites.
CDPATH= cd -- "$$(dirname -- "$$0")" || exit 1
. ./environment.sh
# What sites send passes through the database, so it is for its owner alone.
(umask 077 && : >> server.db && chmod 600 server.db) || exit 1
export FLWR_HOME="$$PWD/flower"
exec flower-superlink --host $listen --port $port --database server.db --disable-runtime-dependency-installation \
  $server_options
