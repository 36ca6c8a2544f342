"""The detectors, one in each file. `monitor_server.detection.registry` lists them."""
