"""What people change through a collector, one use case a file, where more than the database takes part in it.

Detection, the silences, a trainer or retention takes part as well. Each function writes its change in one transaction,
in the name of its author, and then tells the other parts. A change that only the database takes part in is written by
its route, with `Collector.write`.
"""
