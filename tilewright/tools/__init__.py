"""Tools beside the language, under triton's names."""
