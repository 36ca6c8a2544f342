"""Messages to channels: assembled from the events that are due, in the format of each kind of channel, with a chart."""
