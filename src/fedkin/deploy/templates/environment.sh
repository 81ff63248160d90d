# What Flower does by itself unless it is told not to: tell its makers of every run, look for new versions, and install
# an app's dependencies. All of it is off here.
export FLWR_TELEMETRY_ENABLED=0
export FLWR_DISABLE_UPDATE_CHECK=1
export FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
