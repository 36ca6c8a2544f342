"""Messages to channels: assembled from the events that are due, in the form of each kind of channel, with a chart."""
