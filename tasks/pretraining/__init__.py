"""Masked-LM and next-sentence pre-training: corpus, records, objectives."""
