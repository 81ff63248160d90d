# Turns off what Flower does by default: send telemetry of every run, look for new versions, and install an app's
# dependencies.
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
# Options of Flower's programs differ by version; this is the second part of it, as 42 of 1.42.0.
minor="$(flwr --version | sed -n 's/.* 1\.\([0-9]*\)\..*/\1/p')"
minor="${minor:-99}"
