"""Files, their encodings and edits, notebooks, configuration."""
