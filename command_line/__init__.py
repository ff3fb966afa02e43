"""From flags to the work to the exit status. Needs no TensorFlow."""
