"""The only training loop and the only fine-tuning driver."""
