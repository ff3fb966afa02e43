"""SavedModels, with the tokenizer inside the graph."""
