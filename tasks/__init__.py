"""What one task alone knows: its files, features, losses, answers and scores."""
