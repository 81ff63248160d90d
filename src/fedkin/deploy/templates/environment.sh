# Turns off what Flower does by default: send telemetry of every run, look for new versions, and install an app's
# dependencies.
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
