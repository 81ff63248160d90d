#!/bin/sh
# Starts Flower's server, the SuperLink. It runs until it is stopped; started again, it still knows its sites.
CDPATH= cd -- "$$(dirname -- "$$0")" || exit 1
. ./environment.sh
export FLWR_HOME="$$PWD/flower"
exec flower-superlink --host $listen --port $port --database server.db --disable-runtime-dependency-installation \
  $server_options
