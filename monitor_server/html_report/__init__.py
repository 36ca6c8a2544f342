"""The parts that HTML reports share: escaped elements, one style, and drawings without a script."""
