"""The search over all GLUE tasks."""
