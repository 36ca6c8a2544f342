"""Delivers pages to a browser: their first answer, own scripts and styles, compression, and checked updates."""
