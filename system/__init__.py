"""What the operating system gives: files, locks, signals, processes."""
