#!/bin/sh
# Flower's command `flwr`, as this federation needs it: ./flwr.sh run . federation --stream
here="$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)" || exit 1
. "$here/environment.sh"
export FLWR_HOME="$here/flower"
mkdir -p "$FLWR_HOME"
# Before 1.40, this command had a port of its own; see start-server.sh.
if [ "$minor" -ge 40 ]; then api={{ port }}; else api=$(({{ port }} + 1)); fi
# Flower wants the certificate's whole path, which is another wherever this folder is copied to.
cat > "$FLWR_HOME/config.toml" <<END
[superlink]
default = "federation"

[superlink.federation]
address = "{{ host }}:$api"
{% if secure %}
root-certificates = "$here/certificates/ca.crt"
{% else %}
insecure = true
{% endif %}
END
# Wherever it is called from, "." is this folder, and files such as a site's key are those of the caller.
for one do
  shift
  case "$one" in
    /* | -*) ;;
    *) [ ! -f "$one" ] || one="$PWD/$one" ;;
  esac
  set -- "$@" "$one"
done
cd "$here" && exec flwr "$@"
