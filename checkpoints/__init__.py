"""Checkpoints on disk: write, list, rotate, read, match to a model."""
