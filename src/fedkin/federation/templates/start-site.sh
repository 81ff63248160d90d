#!/bin/sh
# Starts Flower's SuperNode at a site: start-site.sh SITE.toml [options of flower-supernode]
# It needs certificates/ca.crt from the server; the site's key is made on the first start, and the server has to
# register its public half (site.key.pub).
here="$$(cd "$$(dirname "$$0")" && pwd)" || exit 1
site="$$(cd "$$(dirname "$$1")" && pwd)/$$(basename "$$1")" || exit 1
shift
. "$$here/environment.sh"
folder="$$(dirname "$$site")"
export FLWR_HOME="$$folder/flower"
CA="$$here/certificates/ca.crt"
KEY="$$folder/site.key"
$make_key
flower-supernode --superlink "$${SUPERLINK:-$host:$port}" --node-config "site=\"$$site\"" \
  $site_options "$$@" &
node=$$!
trap 'kill $$node' INT TERM
wait $$node
status=$$?
[ $$status -eq 0 ] || [ $$status -gt 128 ] || echo "fedkin: $refused" >&2
exit $$status
