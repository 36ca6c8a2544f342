"""The ids of the settings, one module for each section of the page, and those of the fields of its forms."""
