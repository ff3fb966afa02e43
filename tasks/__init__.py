"""A folder for each task: what only that task knows."""
