"""The ids of components that callbacks and browser code share, one module for each subject.

The scripts in `assets` use the same strings. A module is imported under another name, as in
``from dashboard.ids import fleet as fleet_ids``.
"""
