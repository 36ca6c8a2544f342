"""One framework a file or a folder: each passes what its trainer computes anyway to `Monitor.log_step`."""
