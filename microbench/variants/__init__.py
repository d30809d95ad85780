"""Variations of built-in backends, asked for by the path of their file: they answer one question and are no backends of their own."""
