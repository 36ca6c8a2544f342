"""Page elements of the settings: keys, channels of notifications, projects, changes."""
