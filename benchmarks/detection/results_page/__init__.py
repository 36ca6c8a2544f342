"""Writes tables and sections as text and as Markdown, and puts them into the page of results."""
