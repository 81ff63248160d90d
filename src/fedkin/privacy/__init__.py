"""What a message of bits gives away: quantisation, randomised response, what it guarantees, and attacks on it."""
