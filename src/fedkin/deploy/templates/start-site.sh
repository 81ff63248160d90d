#!/bin/sh
# Starts Flower's SuperNode at a site: start-site.sh SITE.toml [options of flower-supernode]
# It needs certificates/ca.crt from the server; the site's key is made on the first start, and the server has to
# register its public half (site.key.pub).
[ -f "$1" ] || { echo "fedkin: Give the site's own file, as in start-site.sh site.toml; '$1' is none." >&2; exit 2; }
here="$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)" || exit 1
site="$(CDPATH= cd -- "$(dirname -- "$1")" && pwd)/$(basename -- "$1")" || exit 1
shift
. "$here/environment.sh"
# On a terminal, what is wrong with the file is shown at once.
[ ! -t 2 ] || fedkin federation check "$site" || exit
folder="$(dirname "$site")"
export FLWR_HOME="$folder/flower"
CA="$here/certificates/ca.crt"
KEY="$folder/site.key"
SERVER="${SUPERLINK:-{{ host }}:{{ port }}}"
{% if secure %}
[ -e "$KEY" ] || fedkin federation key "$KEY" || exit 1
{% endif %}
trap 'kill $node; exit' INT TERM
own=--port=
[ "$minor" -ge 35 ] || own=--clientappio-api-address=127.0.0.1:
# Flower admits a site again only once it has noticed, within a minute, that the site was away; so this retries.
pause=5
free='import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])'
while :; do
  # A port of its own for the site's processes, so that several sites can run on one machine.
  port="$(python3 -c "$free" 2>/dev/null)" || port=9094
  flower-supernode --superlink "$SERVER" --node-config "site=\"$site\"" \
    "$own$port" {% if secure %}--root-certificates "$CA" --auth-supernode-private-key "$KEY"{% else %}--insecure{% endif %} "$@" &
  node=$! began="$(date +%s)"
  wait $node && exit
  [ $(($(date +%s) - $began)) -lt 60 ] || pause=5
{% if secure %}
  why="is not there, has not registered $KEY.pub, is not the server of $CA, or has not noticed yet that the site was away"
{% else %}
  why="is not there, or has not noticed yet that the site was away"
{% endif %}
  echo "fedkin: The server $SERVER did not let this site in: it $why. Trying again in $pause seconds." >&2
  sleep $pause & node=$!
  wait $node
  pause=$(($pause * 2))
  [ $pause -lt 60 ] || pause=60
done
