"""One framework a file: each hands what its trainer already has to `Monitor.log_step`."""
