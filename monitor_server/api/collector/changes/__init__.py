"""Changes by people that more than the database takes part in: detection, the silences, a trainer or retention.

Each function writes its change in one transaction, in the name of its author, and then tells the other parts. A change
that only the database takes part in is written by its route, with `Collector.write`.
"""
