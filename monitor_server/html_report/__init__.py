"""The common parts of HTML reports: escaped elements, one style, and drawings without a script."""
