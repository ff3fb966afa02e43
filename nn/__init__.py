"""Building blocks of neural networks, without the names of checkpoints."""
