"""The detectors, one a file. `monitor_server.detection.registry` lists them."""
