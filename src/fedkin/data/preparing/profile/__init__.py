"""What clusters are like in original units, by sums over clients."""
